"""`reef descriptors`: what the axes of a grid are, what they tell apart among a search's kernels, what moves them."""

import asyncio
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.table import Table

from archive.descriptors import DESCRIPTORS
from service.analysis.axis_statistics import AxisStatistics
from service.analysis.invariance import AxisMove, Invariance, check_invariance
from service.api.schemas import Search
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import emit_json, out
from service.cli.watch import find_search
from service.client import AsyncReef
from service.evaluation.executor_client import LocalExecutor
from workers.protocol import Device, Shape

descriptors = typer.Typer(help="List the descriptors that span the archive's grid.", no_args_is_help=True)

REDUNDANT = 0.5
"""Pairs of axes that share this much of what the poorer one tells are named in the report."""
REWORDED = 4
"""Elites that are written differently unless told otherwise: two traces each, which take a seed of the catalogue
half a second to one and a half, after the seconds that a bench takes to get warm."""


@descriptors.command("list")
def find(as_json: AsJson = False) -> None:
    """Show every axis: what it means, and what a kernel in each of its bins looks like."""
    if as_json:
        emit_json(
            [{"name": name, "meaning": each.meaning, "labels": each.labels} for name, each in DESCRIPTORS.items()]
        )
        return
    table = Table("axis", "meaning", "bins")
    for name, each in DESCRIPTORS.items():
        table.add_row(name, each.meaning, " | ".join(each.labels))
    out.print(table)


@descriptors.command("report")
def report(
    search: Annotated[str, typer.Argument(help="Id of a search; the newest if left out.")] = "",
    device: Annotated[str | None, typer.Option(help="Which of its devices; the first if left out.")] = None,
    reworded: Annotated[
        int, typer.Option(help="Elites to trace here as they are and written differently.", min=0)
    ] = REWORDED,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Say what each axis tells apart among a search's kernels, which two tell the same, and which a rename moves."""

    async def taken() -> tuple[AxisStatistics, Invariance]:
        async with reach(url, token) as reef:
            found = await find_search(reef, search)
            census = await reef.wire.read(AxisStatistics, f"/searches/{found.id}/census", device=device)
            return census, await _invariance(reef, found, census.device, reworded)

    census, invariance = asyncio.run(taken())
    if as_json:
        emit_json({**census.model_dump(mode="json"), "invariance": invariance.model_dump(mode="json")})
    else:
        _show(census, invariance)


async def _invariance(reef: AsyncReef, search: Search, device: str, count: int) -> Invariance:
    """Elites of the search traced on this machine, as they are and written differently."""
    holders = list(dict.fromkeys([elite.candidate async for elite in reef.elites(search.id, device)]))
    sources = {holder: (await reef.candidate(holder)).source for holder in evenly(holders, count)}
    if not sources:
        return Invariance()
    operator = await reef.operator(search.operator_digest)
    shapes = [Shape.model_validate(shape) for shape in search.shapes]
    async with LocalExecutor("trace") as tracer:
        return await check_invariance(operator, shapes, Device.parse(device).target, sources, tracer)


def evenly(ranked: Sequence[str], count: int) -> list[str]:
    """So many of a ranking, from the first to the last in equal steps; all if it has no more."""
    if count >= len(ranked) or count < 2:
        return list(ranked[:count])
    return [ranked[place * (len(ranked) - 1) // (count - 1)] for place in range(count)]


def _show(census: AxisStatistics, invariance: Invariance) -> None:
    table = Table(
        *("axis", "bins reached", "effective", "entropy", "fullest", "moved"),
        title=f"{census.kernels} kernels on {census.device}",
    )
    rows = {**census.descriptors, "cells of the grid": census.cells}
    for name, spread in rows.items():
        moves = invariance.moved.get(name)
        table.add_row(
            f"{name} *" if name in census.axes else name,
            f"{spread.reached} of {spread.places}",
            f"{spread.effective:.2f}",
            f"{spread.entropy_bits:.2f} bits",
            f"{spread.largest_share:.0%}",
            "" if moves is None else f"{len({move.candidate for move in moves})} of {invariance.compared}",
        )
    out.print(table)
    out.print("* spans the search's grid. Effective: so many places, equally full, would tell as much.")
    for pair in census.shared:
        if pair.share >= REDUNDANT:
            out.print(f"{pair.first} and {pair.second} share {pair.share:.0%} of what the poorer of them tells")
    if census.moved:
        out.print(f"{len(census.moved)} of {census.elites} elites belong elsewhere by the edges of today: re-bin")
    else:
        out.print(f"all {census.elites} elites lie where their readings put them today")
    for line in in_words(invariance):
        out.print(line, highlight=False, markup=False)


def in_words(invariance: Invariance) -> list[str]:
    """What came of writing elites differently, a line each."""
    lines = []
    if invariance.compared:
        lines.append(
            f"Moved: of {invariance.compared} elites traced here once more with other names and another layout; "
            f"{invariance.equal} came to the same machine code"
        )
    for name, moves in invariance.moved.items():
        lines += [f"{name} moved {move.candidate}, variant {move.variant}, {_course(move)}" for move in moves]
    return lines + [f"{candidate} was not compared: {reason}" for candidate, reason in invariance.skipped.items()]


def _course(move: AxisMove) -> str:
    ends = ("nowhere" if end is None else f"{end['value']:g} (bin {end['bin']})" for end in (move.before, move.after))
    return "from {} to {}".format(*ends)
