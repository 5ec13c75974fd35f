"""`reef descriptors`: what the axes of a grid are, and what they tell apart among a search's kernels."""

import asyncio
from typing import Annotated

import typer
from rich.table import Table

from archive.descriptors import DESCRIPTORS
from service.cli.console import emit_json, out
from service.cli.reached import AsJson, Token, Url, reach
from service.cli.watched import find_search
from service.telling.census import Census

descriptors = typer.Typer(help="The axes that grids are made of.", no_args_is_help=True)

REDUNDANT = 0.5
"""Pairs of axes that share this much of what the poorer one tells are named in the report."""


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
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Say what each axis tells apart among a search's kernels, and which two tell the same."""

    async def taken() -> Census:
        async with reach(url, token) as reef:
            found = await find_search(reef, search)
            return await reef.wire.read(Census, f"/searches/{found.id}/census", device=device)

    census = asyncio.run(taken())
    if as_json:
        emit_json(census.model_dump(mode="json"))
    else:
        _show(census)


def _show(census: Census) -> None:
    table = Table(
        "axis", "bins reached", "effective", "entropy", "fullest", title=f"{census.kernels} kernels on {census.device}"
    )
    rows = {**census.descriptors, "cells of the grid": census.cells}
    for name, spread in rows.items():
        table.add_row(
            f"{name} *" if name in census.axes else name,
            f"{spread.reached} of {spread.places}",
            f"{spread.effective:.2f}",
            f"{spread.entropy_bits:.2f} bits",
            f"{spread.largest_share:.0%}",
        )
    out.print(table)
    out.print("* spans the search's grid. Effective: so many places, equally full, would tell as much.")
    for pair in census.shared:
        if pair.share >= REDUNDANT:
            out.print(f"{pair.first} and {pair.second} share {pair.share:.0%} of what the poorer of them tells")
