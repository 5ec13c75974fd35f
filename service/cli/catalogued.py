"""`reef operators`: the catalogue."""

from typing import Annotated

import typer
from rich.table import Table

from service.catalogue import load_catalogue, load_operator
from service.cli.console import emit_json, out

operators = typer.Typer(help="The operator catalogue.", invoke_without_command=True)


@operators.callback()
def listing(
    context: typer.Context, as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list.")] = False
) -> None:
    """List the catalogue."""
    if context.invoked_subcommand is not None:
        return
    catalogue = load_catalogue()
    if as_json:
        emit_json([operator.model_dump(mode="json") for operator in catalogue.values()])
        return
    table = Table(title="Operators")
    for heading in ("name", "signature", "benchmark shapes", "seeds"):
        table.add_column(heading)
    for operator in catalogue.values():
        arguments = ", ".join([item.name for item in operator.inputs] + [scalar.name for scalar in operator.scalars])
        shapes = "; ".join(",".join(f"{k}={v}" for k, v in shape.dims.items()) for shape in operator.shapes)
        table.add_row(operator.name, f"{operator.entry}({arguments})", shapes, str(len(operator.seeds)))
    out.print(table)


@operators.command("show")
def show(
    spec: Annotated[str, typer.Argument(help="A catalogue name, or a path to a spec.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole operator.")] = False,
) -> None:
    """Show one operator, or say what is wrong with its spec."""
    operator = load_operator(spec)
    if as_json:
        emit_json(operator.model_dump(mode="json"))
        return
    out.print(f"[bold]{operator.name}[/] {operator.digest[:16]}", highlight=False)
    for item in operator.inputs:
        out.print(f"  input  {item.name}: {item.dtype}[{', '.join(map(str, item.shape))}]", markup=False)
    for scalar in operator.scalars:
        out.print(f"  scalar {scalar.name}: {scalar.dtype} = {scalar.value}", markup=False)
    for output in operator.outputs:
        out.print(f"  output {output.name}: {output.dtype}", markup=False)
    out.print(operator.reference, highlight=False, markup=False)
