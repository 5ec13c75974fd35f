"""A service inside this process, for as long as a command runs; imported by commands that speak to no other."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from service.app import create_app, running
from service.client import AsyncReef
from service.client.inside import InProcessTransport
from service.coordinator import Coordinator
from service.settings import Settings

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
        async with AsyncReef(HERE, "", transport=InProcessTransport(app), attempts=1) as reef:
            yield reef


@asynccontextmanager
async def _reading(settings: Settings) -> AsyncIterator[Coordinator]:
    coordinator = await Coordinator.reading(settings)
    try:
        yield coordinator
    finally:
        await coordinator.close()
