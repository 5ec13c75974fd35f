"""Which service a command speaks to: one at an address, or one inside this process for as long as it runs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated

import typer

from kernelreef import AsyncReef
from service.cli.lazy import imported
from service.settings import Settings

Url = Annotated[
    str | None, typer.Option("--url", help="Address of a coordinator; REEF_URL, or none: one inside this command.")
]
Token = Annotated[str | None, typer.Option("--token", help="Who is calling; better said by REEF_TOKEN.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

INSIDE = "service.cli.in_process"
"""Who speaks to a service elsewhere does not wait until a database and a web framework are imported."""


@asynccontextmanager
async def reach(url: str | None, token: str | None, *, working: bool = False) -> AsyncIterator[AsyncReef]:
    """A client of the service that a command is about.

    Args:
        url: Its address; `REEF_URL` if not given. Without either, a service inside this process over the data folder.
        token: Who is calling; `REEF_TOKEN` if not given.
        working: Whether a service of our own must search and judge, or only show what the archive holds.

    Raises:
        ServiceError: If a service of our own does not start.
        ArchiveError: If its database does not.
    """
    settings = Settings()
    where = url or settings.url
    if where is not None:
        async with AsyncReef(where, token or settings.token) as reef:
            yield reef
        return
    async with imported(INSIDE).serve_inside(settings, working=working) as reef:
        yield reef
