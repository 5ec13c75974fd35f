"""A service inside this process, for as long as a command runs; imported by commands that speak to no other."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from kernelreef import AsyncReef
from kernelreef.in_process import InProcessTransport
from service.app import create_app, running
from service.coordinator import Coordinator
from service.errors import ServiceError
from service.settings import Settings
from service.tasks import end

HERE = "http://127.0.0.1"
"""Its address."""


@asynccontextmanager
async def serve_inside(settings: Settings, *, working: bool) -> AsyncIterator[AsyncReef]:
    """A client of a service over the data folder.

    Args:
        settings: The service's.
        working: Whether it must search and judge, or only show what the archive holds.

    Raises:
        ServiceError: If the service does not start.
        ArchiveError: If its database does not.
    """
    app = create_app(settings)
    async with running(app, settings) if working else _reading(settings) as coordinator:
        app.state.coordinator = coordinator or app.state.coordinator
        # What fails inside this process fails again.
        async with (
            _workers_start(app.state.coordinator, settings),
            AsyncReef(HERE, "", transport=InProcessTransport(app), attempts=1) as reef,
        ):
            yield reef


@asynccontextmanager
async def _workers_start(coordinator: Coordinator, settings: Settings) -> AsyncIterator[None]:
    """Cancel what runs inside once a kind of worker does not start, if no other machine can have such workers.

    Raises:
        ServiceError: Then; says how the last one ended.
    """
    if not settings.alone:
        yield
        return

    caller = asyncio.current_task()
    watching = asyncio.create_task(coordinator.pool.wait_failing())

    def cancel(_: object) -> None:
        if caller is not None and not watching.cancelled():
            caller.cancel()

    watching.add_done_callback(cancel)
    try:
        yield
    except asyncio.CancelledError:
        if caller is None or not watching.done():
            raise
        caller.uncancel()
        raise ServiceError(watching.result()) from None
    finally:
        watching.remove_done_callback(cancel)
        await end([watching])


@asynccontextmanager
async def _reading(settings: Settings) -> AsyncIterator[Coordinator]:
    coordinator = await Coordinator.reading(settings)
    try:
        yield coordinator
    finally:
        await coordinator.close()
