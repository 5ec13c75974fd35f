"""`reef knowledge`: what was learned across searches, to be read, edited and handed on; and trajectories as files."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.table import Table
from rich.text import Text

from archive.records import KnowledgeState
from service.analysis.trajectories import Which
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import emit_json, err, out
from service.cli.files import begin
from service.client import AsyncReef
from service.errors import InvalidInput
from service.knowledge.schemas import KnowledgeEntries, KnowledgeEntry, KnowledgeImportResult, from_text, to_text

knowledge = typer.Typer(help="Manage lessons extracted from searches.", no_args_is_help=True)

FORMS: dict[str, Literal["json", "toml"]] = {".json": "json", ".toml": "toml"}
"""Forms of files by the ends of their names."""

AT_ONCE = 100
"""Entries sent in one request: with all their findings a few hundred kilobytes."""

EntryId = Annotated[str, typer.Argument(help="Id of an entry.")]


@knowledge.command("list")
def find(
    state: Annotated[KnowledgeState | None, typer.Option(help="Only entries in this state.")] = None,
    limit: Annotated[int, typer.Option(help="Most to show.", min=1)] = 50,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show what is known, entries of most worth first."""
    found = asyncio.run(_entries(state, limit, url, token))
    if as_json:
        emit_json([entry.model_dump(mode="json") for entry in found])
        return
    table = Table("entry", "what", "gained", "best", "state", title="What searches taught")
    for entry in found:
        best = f"{entry.gain.low:.2f}x {entry.provenance}" if entry.gain else "not tried"
        tried = f"{entry.successes + entry.wins} of {_trials(entry)}"
        table.add_row(
            entry.id, Text(entry.sentence), tried, best, entry.state.value + (" (held)" if entry.held else "")
        )
    out.print(table)


@knowledge.command("edit")
def edit(
    entry: EntryId,
    sentence: Annotated[str | None, typer.Option(help="What to say instead.")] = None,
    state: Annotated[KnowledgeState | None, typer.Option(help="Whether it is offered, for good.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Give an entry another sentence, or decide whether prompts get it."""

    async def edited() -> KnowledgeEntry:
        change = {"sentence": sentence, "state": state.value if state else None}
        async with reach(url, token) as reef:
            body = {name: value for name, value in change.items() if value is not None}
            return await reef.wire.act(KnowledgeEntry, "PATCH", f"/knowledge/{entry}", body)

    found = asyncio.run(edited())
    if as_json:
        emit_json(found.model_dump(mode="json"))
    else:
        out.print(Text(f"{found.id} is {found.state.value}: {found.sentence}"))


@knowledge.command("export")
def export(
    path: Annotated[Path, typer.Option("--out", help="The file, .json or .toml.")],
    state: Annotated[KnowledgeState | None, typer.Option(help="Only entries in this state.")] = None,
    url: Url = None,
    token: Token = None,
) -> None:
    """Write entries with all their findings into a file."""
    form = _form(path)
    found = asyncio.run(_entries(state, None, url, token))
    path.write_text(to_text(found, form), encoding="utf-8")
    err.print(f"{len(found)} entries are in {path}", highlight=False)


@knowledge.command("import")
def read(
    path: Annotated[Path, typer.Argument(help="A file that was exported, or written by hand.")],
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Keep the entries of a file; those known already get its sentences, states and findings."""
    try:
        given = from_text(path.read_text(encoding="utf-8"), _form(path))
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(str(error), "FILE") from error

    async def kept() -> KnowledgeImportResult:
        async with reach(url, token) as reef:
            for start in range(0, len(given.entries), AT_ONCE):
                batch = KnowledgeEntries(entries=given.entries[start : start + AT_ONCE])
                await reef.wire.act(KnowledgeImportResult, "POST", "/knowledge", batch.model_dump(mode="json"))
        return KnowledgeImportResult(entries=len(given.entries))

    _say(asyncio.run(kept()), "were kept", as_json=as_json)


@knowledge.command("extract")
def extract(
    search: Annotated[str, typer.Argument(help="Id of a search that is done or stopped.")],
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Extract lessons from a search. Extracting again counts nothing twice."""

    async def extracted() -> KnowledgeImportResult:
        async with reach(url, token) as reef:
            return await reef.wire.act(KnowledgeImportResult, "POST", f"/searches/{search}/knowledge")

    _say(asyncio.run(extracted()), "rest on this search", as_json=as_json)


async def write_steps(reef: AsyncReef, search: str, path: Path, which: Which, *, rewards: bool) -> Path:
    """Write a search's trajectories into a file, which appears when it is complete.

    Args:
        reef: Where the search is.
        search: Its id.
        path: The file; its name ends in `.jsonl` or `.parquet`.
        which: Which steps.
        rewards: Whether to fill in rewards.

    Returns:
        Where it is.

    Raises:
        BadInput: If the name ends otherwise, or Parquet needs a package that is not there.
    """
    part = path.with_name(f"{path.name}.part")
    address = f"/searches/{search}/trajectories?filter={which}&rewards={str(rewards).lower()}"
    try:
        with begin(part, path.name) as file:
            async with reef.wire.stream(address, {}, None) as answer:
                async for line in lines_of(answer.aiter_bytes()):
                    file.write(line)
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
    return path.resolve()


async def lines_of(chunks: AsyncIterator[bytes]) -> AsyncIterator[str]:
    """Lines as NDJSON means them: strings may hold what Python takes for the end of a line."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode()


async def _entries(
    state: KnowledgeState | None, limit: int | None, url: str | None, token: str | None
) -> list[KnowledgeEntry]:
    found: list[KnowledgeEntry] = []
    async with reach(url, token) as reef:
        async for entry in reef.wire.list(KnowledgeEntry, "/knowledge", state=state.value if state else None):
            found.append(entry)
            if len(found) == limit:
                break
    return found


def _form(path: Path) -> Literal["json", "toml"]:
    if path.suffix not in FORMS:
        raise InvalidInput(f"'{path.name}' must end in .json or .toml", "FILE")
    return FORMS[path.suffix]


def _trials(entry: KnowledgeEntry) -> int:
    return entry.successes + entry.wins + entry.failures + entry.losses


def _say(kept: KnowledgeImportResult, what: str, *, as_json: bool) -> None:
    if as_json:
        emit_json(kept.model_dump())
    else:
        out.print(f"{kept.entries} entries {what}", highlight=False)
