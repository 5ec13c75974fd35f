"""A service inside this process while a command runs; imported only by commands that use no other service."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from kernelreef import AsyncReef
from kernelreef.in_process import InProcessTransport
from service.app import create_app, running
from service.cli.connection import LocalReef
from service.coordinator import Coordinator
from service.errors import ServiceError
from service.fleet.executor_template import ExecutorTemplate
from service.settings import Settings
from service.tasks import end

HERE = "http://127.0.0.1"
"""Address of the service in this process; nothing listens there."""


@asynccontextmanager
async def serve_inside(
    settings: Settings, *, working: bool, devices: Sequence[str] = (), template: ExecutorTemplate | None = None
) -> AsyncIterator[AsyncReef]:
    """Run a service over the data folder, and connect to it.

    It runs only searches that the command submits or resumes. If the command is interrupted, no model is asked any more
    and open calls are cancelled.

    Args:
        settings: Settings of the service.
        working: True if it must search and judge; otherwise it only reads the archive.
        devices: Devices of the search to come, so that their workers start at once.
        template: Template of their executors, if the command has started one.

    Raises:
        ServiceError: If the service does not start.
        ArchiveError: If its database does not start.
    """
    app = create_app(settings)
    async with (
        running(app, settings, named_only=True, devices=devices, template=template)
        if working
        else _reading(settings) as coordinator
    ):
        app.state.coordinator = coordinator or app.state.coordinator
        # One attempt: a failure inside this process would repeat.
        async with (
            _workers_start(app.state.coordinator, settings),
            LocalReef(HERE, "", transport=InProcessTransport(app), attempts=1) as reef,
        ):
            try:
                yield reef
            except asyncio.CancelledError:
                await app.state.coordinator.llm_gateway.cancel()
                raise


@asynccontextmanager
async def _workers_start(coordinator: Coordinator, settings: Settings) -> AsyncIterator[None]:
    """Cancel the block if a kind of worker does not start and no other machine can have such workers.

    Raises:
        ServiceError: If the block was cancelled; it tells how the last worker ended.
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
