"""`reef searches`: list the searches."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Annotated

import typer
from rich.text import Text

from archive.records import SearchState
from kernelreef.models import Search
from kernelreef.short_ids import brief
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, err, out, plain
from service.evaluation.figure_labels import provenance

AGES = ((timedelta(days=1), "d"), (timedelta(hours=1), "h"), (timedelta(minutes=1), "min"))
"""Units of an age, the largest first."""


FIGURES = ("evaluations", "best", "age")
"""Columns that are aligned to the right."""
WHOLE = ("id", "best")
"""Columns that stay on one line on a narrow terminal."""
PAGE = 200
"""Maximum number of searches in one answer."""


def searches(
    state: Annotated[list[SearchState] | None, typer.Option(help="Only searches in this state; may repeat.")] = None,
    operator: Annotated[str | None, typer.Option(help="Only searches for the operator of this name.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of searches.")] = 20,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """List the searches, newest first."""
    found = asyncio.run(_find(state or [], operator, limit, url, token))
    if as_json:
        emit_json([search.model_dump(mode="json") for search in found])
        return
    if not found:
        err.print(
            "there is no such search"
            if state or operator
            else "there is no search; start one with: reef search rmsnorm"
        )
        return
    out.print(table_of(found, datetime.now(UTC)))


def table_of(found: list[Search], now: datetime) -> FoldedTable:
    """Build the table of searches; long names fold, ids and figures are never cut."""
    table = FoldedTable(title="Searches", caption="~ predicted")
    for heading in ("id", "operator", "state", "device", "evaluations", "best", "age"):
        table.add_column(heading, justify="right" if heading in FIGURES else "left", no_wrap=heading in WHOLE)
    for search in found:
        best = search.best or {}
        done = f"{search.evaluated}/" if search.evaluated is not None else ""
        table.add_row(
            brief(search.id),
            plain(search.operator),
            search.state.value,
            Text("\n".join(search.devices)),
            f"{done}{search.evaluations}",
            "\n".join(_speedup(best.get(device), device) for device in search.devices),
            age(now - search.created_at),
        )
    return table


def age(elapsed: timedelta) -> str:
    """Format an age in its largest whole unit, such as `3 h`."""
    for unit, name in AGES:
        if elapsed >= unit:
            return f"{elapsed // unit} {name}"
    return f"{max(elapsed, timedelta()) // timedelta(seconds=1)} s"


def _speedup(objective: float | None, device: str) -> str:
    sign = "~" if provenance(device) == "predicted" else ""
    return "none" if objective is None else f"{sign}{objective:.3f}x"


async def _find(
    state: list[SearchState], operator: str | None, limit: int, url: str | None, token: str | None
) -> list[Search]:
    found: list[Search] = []
    async with reach(url, token) as reef:
        query = {"state": tuple(state), "operator": operator, "limit": min(limit, PAGE)}
        async for search in reef.wire.list(Search, "/searches", **query):
            found.append(search)
            if len(found) == limit:
                break
    return found
