"""Connection to the service that a command uses, and options that several commands share.

The service is at an address, or runs inside this process while the command runs.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from typing import Annotated

import typer

from kernelreef import AsyncReef
from service.cli.console import err
from service.cli.lazy import imported
from service.discovery import find_service
from service.settings import Settings

Url = Annotated[
    str | None,
    typer.Option("--url", help="Address of a coordinator, or REEF_URL; by default one runs in this command."),
]
Token = Annotated[str | None, typer.Option("--token", help="API token; prefer REEF_TOKEN.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SearchId = Annotated[str, typer.Argument(help="Id of a search.")]
NewestSearch = Annotated[str, typer.Argument(help="Id of a search; the newest by default.")]
CandidateId = Annotated[str, typer.Argument(help="Id of a candidate.")]
OperatorSpec = Annotated[str, typer.Argument(help="A catalogue name, or a path to a spec.")]
SearchDevice = Annotated[str | None, typer.Option(help="Device of the search; its first by default.")]

INSIDE = "service.cli.in_process"
"""Module of the service inside this process, imported only if needed: database and web framework import slowly."""
EARLY = "service.cli.early_start"
"""Module of what begins before that import, for commands that name devices."""


class LocalReef(AsyncReef):
    """Client of a service inside this process: what it runs ends with the command."""


@asynccontextmanager
async def reach(
    url: str | None, token: str | None, *, working: bool = False, devices: Sequence[str] = ()
) -> AsyncIterator[AsyncReef]:
    """Connect to the service that a command uses.

    Args:
        url: Address of the service; `REEF_URL` if not given. Without either, a service runs in this process; a command
            that searches uses a service that serves the data folder already.
        token: API token; `REEF_TOKEN` if not given.
        working: True if a service in this process must search and judge; otherwise it only reads the archive.
        devices: Devices of the search to come: a service in this process starts their workers first.

    Raises:
        ServiceError: If the service in this process does not start.
        ArchiveError: If its database does not start.
    """
    settings = Settings()
    where = url or settings.url
    if where is None and working and (where := find_service(settings.data_dir)) is not None:
        err.print(f"using the service at {where}", highlight=False)
    if where is not None:
        async with AsyncReef(where, token or settings.token) as reef:
            yield reef
        return
    with imported(EARLY).begin_early(settings, devices) if working else nullcontext() as template:
        async with imported(INSIDE).serve_inside(settings, working=working, devices=devices, template=template) as reef:
            yield reef
