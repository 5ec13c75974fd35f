"""`reef pause`, `resume`, `stop`, `update` and `delete`: control a search."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

import typer
from pydantic import ValidationError

from kernelreef import AsyncReef
from kernelreef.asynchronous import SearchChanges
from kernelreef.models import Search
from kernelreef.validation import invalid
from service.cli.connection import AsJson, SearchId, Token, Url, reach
from service.cli.console import emit_json, out
from service.cli.watch import rules_of
from service.requests import SearchChange

NO_RULES = "none"
"""Value of `--stop` that removes all rules, and of `--tag` that removes all tags."""


def pause(search: SearchId, as_json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """Pause a search; jobs in flight still count."""
    _act(lambda reef: reef.pause(search), url, token, as_json=as_json)


def resume(search: SearchId, as_json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """Resume a paused search."""
    _act(lambda reef: reef.resume(search), url, token, as_json=as_json)


def stop(search: SearchId, as_json: AsJson = False, url: Url = None, token: Token = None) -> None:
    """End a search for good; its results stay."""
    _act(lambda reef: reef.stop(search), url, token, as_json=as_json)


def delete(
    search: SearchId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Delete an ended search with its candidates and results, for good."""

    async def remove() -> None:
        async with reach(url, token) as reef:
            found = await reef.search(search)
            said = f"{found.name or found.operator}, {found.state.value}, up to {found.evaluations} evaluations"
            if not yes and not await asyncio.to_thread(typer.confirm, f"Delete the search {search} ({said})?"):
                raise typer.Abort
            await reef.delete(search)

    asyncio.run(remove())
    out.print(f"{search}: deleted", highlight=False)


def update(
    search: SearchId,
    evaluations: Annotated[int | None, typer.Option(help="Maximum number of evaluations in all.")] = None,
    priority: Annotated[int | None, typer.Option(help="Priority among your own searches, 1 to 9.")] = None,
    stop: Annotated[
        list[str] | None,
        typer.Option(
            help="New stop rules: seconds=N, device_seconds=N, plateau=N or speedup=X; they replace all others."
        ),
    ] = None,
    name: Annotated[str | None, typer.Option(help="Name for people; empty for none.")] = None,
    tag: Annotated[list[str] | None, typer.Option(help="Tag; those given replace all others.")] = None,
    notes: Annotated[str | None, typer.Option(help="Notes; they replace the present ones.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Change a search's evaluations, priority, stop rules, name, tags or notes.

    `--stop none` removes all stop rules, `--tag none` all tags.
    """
    changes = changes_of(evaluations, priority, stop, name=name, tags=tag, notes=notes)
    _act(lambda reef: reef.update(search, **changes), url, token, as_json=as_json)


def changes_of(
    evaluations: int | None,
    priority: int | None,
    stop: list[str] | None,
    *,
    name: str | None = None,
    tags: list[str] | None = None,
    notes: str | None = None,
) -> SearchChanges:
    """Read the changes from the options of `update`.

    Raises:
        InvalidInput: If there is no change, or an option is invalid; it names the option.
    """
    changes = SearchChanges()
    if evaluations is not None:
        changes["evaluations"] = evaluations
    if priority is not None:
        changes["priority"] = priority
    if stop:
        changes["stop"] = {} if stop == [NO_RULES] else rules_of(stop)
    if name is not None:
        changes["name"] = name
    if tags:
        changes["tags"] = [] if tags == [NO_RULES] else tags
    if notes is not None:
        changes["notes"] = notes
    try:
        SearchChange.model_validate(changes)
    except ValidationError as error:
        raise invalid(error, SearchChange) from error
    return changes


def _act(do: Callable[[AsyncReef], Awaitable[Search]], url: str | None, token: str | None, *, as_json: bool) -> None:
    async def act() -> Search:
        async with reach(url, token) as reef:
            return await do(reef)

    found = asyncio.run(act())
    if as_json:
        emit_json(found.model_dump(mode="json"))
        return
    ending = ", ".join(f"{name}={value}" for name, value in (found.stop or {}).items())
    out.print(
        f"{found.id}: {found.state.value}, {found.evaluations} evaluations, priority {found.priority}"
        + (f", ends earlier by {ending}" if ending else ""),
        highlight=False,
    )
