"""`reef descriptors`: the axes that a grid can have."""

import typer

from archive.descriptors import DESCRIPTORS
from service.cli.connection import AsJson
from service.cli.console import FoldedTable, emit_json, out

descriptors = typer.Typer(help="List the descriptors that span the archive's grid.", no_args_is_help=True)


@descriptors.command("list")
def find(as_json: AsJson = False) -> None:
    """Show every axis: what it means, and what a kernel in each of its bins looks like."""
    if as_json:
        emit_json(
            [{"name": name, "meaning": each.meaning, "labels": each.labels} for name, each in DESCRIPTORS.items()]
        )
        return
    table = FoldedTable("axis", "meaning", "bins")
    for name, each in DESCRIPTORS.items():
        table.add_row(name, each.meaning, " | ".join(each.labels))
    out.print(table)
