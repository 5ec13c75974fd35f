"""`reef archive`: dump and load an archive, re-bin searches, delete old data. Works directly on the database."""

import asyncio
import getpass
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, TypeVar

import typer

from archive.descriptors import DESCRIPTORS
from archive.errors import AmbiguousId
from archive.errors import RecordConflict as ArchiveConflict
from archive.errors import RecordNotFound as Gone
from archive.records import NewAuditRecord
from archive.store import RebinningResult, Store
from service.cli.connection import AsJson
from service.cli.console import FoldedTable, emit_json, err, out
from service.errors import InvalidInput
from service.open_archive import open_archive
from service.settings import Settings

T = TypeVar("T")
archive = typer.Typer(help="Copy the archive, re-bin searches, and delete old data.", no_args_is_help=True)

LEAST_DAYS = 30
"""Minimum age in days of audit entries to remove, so that a month can be looked up."""


@archive.command("dump")
def dump(
    path: Annotated[Path, typer.Argument(help="File to write; it must not exist.")], as_json: AsJson = False
) -> None:
    """Write a consistent snapshot of the whole archive into a file."""
    _count(asyncio.run(_with_store(lambda store: _copied(store.copies.dump(path)))), "written", as_json=as_json)


@archive.command("load")
def load(path: Annotated[Path, typer.Argument(help="A file that `dump` wrote.")], as_json: AsJson = False) -> None:
    """Fill an empty archive from a dump, all or nothing."""
    _count(asyncio.run(_with_store(lambda store: _copied(store.copies.load(path)))), "read", as_json=as_json)


@archive.command("prune")
def prune(
    days: Annotated[int, typer.Option(help="Minimum number of days since a search ended.", min=0)],
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove ended searches with their candidates, reports and elites."""
    before = datetime.now(UTC) - timedelta(days=days)
    if yes:
        _count(asyncio.run(_with_store(lambda store: store.retention.prune(before))), "removed", as_json=as_json)
        return
    expired = asyncio.run(_with_store(lambda store: store.retention.expired(before)))
    if as_json:
        emit_json({"expired": expired})
        return
    for search in expired:
        out.print(search, highlight=False)
    err.print(f"{len(expired)} searches would be removed; repeat with --yes to remove them")


@archive.command("rebin")
def rebin(
    search: Annotated[str, typer.Argument(help="Id of a paused or ended search.")],
    axes: Annotated[str, typer.Option(help="Descriptors of the new grid, comma-separated; unchanged by default.")] = "",
    as_json: AsJson = False,
) -> None:
    """Rebuild a search's grid, on other axes or with changed bin edges, by repeating all offers."""
    names = tuple(name.strip() for name in axes.split(",") if name.strip())
    for name in names:
        if name not in DESCRIPTORS:
            raise InvalidInput(f"'{name}' is not one of: {', '.join(DESCRIPTORS)}", "axes")
    found = asyncio.run(_with_store(lambda store: _rebinned(store, search, names)))
    if as_json:
        emit_json(asdict(found))
        return
    for device, cells in found.cells.items():
        out.print(f"{device}: {cells} cells filled", highlight=False)
    unplaced = f"; {found.unplaced} have no coordinate on these axes" if found.unplaced else ""
    err.print(f"{found.offers} offers repeated, axes version {found.axes_version}{unplaced}", highlight=False)


@archive.command("prune-audit")
def prune_audit(
    days: Annotated[int, typer.Option(help="Age in days above which entries are removed.", min=LEAST_DAYS)],
    as_json: AsJson = False,
) -> None:
    """Remove old audit entries, and record the removal in the audit log."""
    moment = datetime.now(UTC)
    who = f"{getpass.getuser()} on {socket.gethostname()}"
    entry = NewAuditRecord(moment, None, who, "", "reef archive prune-audit", f"--days {days}", 200, "")
    before = moment - timedelta(days=days)
    removed = asyncio.run(_with_store(lambda store: store.audit.prune(before, entry)))
    _count({"audit": removed}, "removed", as_json=as_json)


async def _with_store(use: Callable[[Store], Awaitable[T]]) -> T:
    async with open_archive(Settings()) as store:
        return await use(store)


async def _rebinned(store: Store, search: str, names: Sequence[str]) -> RebinningResult:
    """Re-bin by the descriptors' present edges; a search that cannot be re-binned is an input error."""
    try:
        known = await store.searches.get(await store.ids.whole("search", search))
        axes = [DESCRIPTORS[name].axis for name in names or [axis.descriptor for axis in known.axes]]
        return await store.rebinning.rebin(known.id, axes)
    except (Gone, AmbiguousId, ArchiveConflict) as error:
        raise InvalidInput(str(error), "SEARCH") from error


async def _copied(copying: Awaitable[dict[str, int]]) -> dict[str, int]:
    """Await a dump or load; an unusable file is an input error."""
    try:
        return await copying
    except OSError as error:
        raise InvalidInput(str(error), "PATH") from error


def _count(rows: Mapping[str, int], done: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(dict(rows))
        return
    table = FoldedTable("table", f"rows {done}")
    for name, count in rows.items():
        table.add_row(name, str(count))
    out.print(table)
