"""`reef operators`: list, show and test operators, and write seed kernels."""

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated

import typer

from kernelreef import AsyncReef
from service.cli.connection import AsJson, OperatorSpec, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, out
from service.cli.watch import operator_of
from service.errors import InvalidInput, NotFound
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.jobs import DRAFT_S
from service.operators.catalogue import catalogue_names, load_operator
from service.operators.shapes import all_shapes
from service.settings import Settings
from workers.protocol import MutationReport, Operator, TraceJob, TraceReport
from workers.targets import TARGETS

NOT_ADMITTED = 4
HERE = "check"
"""Value of the id fields in jobs of a check, which belongs to no search."""
LISTED = ("equivalent", "within_rounding", "survived", "rejected", "untried")
"""Verdicts whose answers are listed by name."""

operators = typer.Typer(help="Manage the operator catalogue and submitted operators.", invoke_without_command=True)


@operators.callback()
def listing(
    context: typer.Context,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """List the catalogue's and submitted operators."""
    if context.invoked_subcommand is not None:
        return
    known = asyncio.run(_listed(url, token))
    if as_json:
        emit_json([operator.model_dump(mode="json") for operator in known])
        return
    table = FoldedTable(title="Operators")
    for heading in ("name", "signature", "benchmark shapes", "seeds"):
        table.add_column(heading)
    for operator in known:
        arguments = ", ".join([item.name for item in operator.inputs] + [scalar.name for scalar in operator.scalars])
        shapes = "\n".join(",".join(f"{k}={v}" for k, v in shape.dims.items()) for shape in operator.shapes)
        table.add_row(operator.name, f"{operator.entry}({arguments})", shapes, str(len(operator.seeds)))
    out.print(table)


@operators.command("show")
def show(
    spec: OperatorSpec,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show one operator, or the errors of its spec."""
    operator = asyncio.run(_found(spec, url, token))
    if as_json:
        emit_json(operator.model_dump(mode="json"))
        return
    out.print(f"[bold]{operator.name}[/] {operator.digest[:12]}", highlight=False)
    for item in operator.given:
        out.print(f"  input  {item.name}: {item.dtype}[{', '.join(map(str, item.shape))}]", markup=False)
    for scalar in operator.scalars:
        out.print(f"  scalar {scalar.name}: {scalar.dtype} = {scalar.value}", markup=False)
    for output in operator.results:
        out.print(f"  output {output.name}: {output.dtype}", markup=False)
    out.print(operator.reference, highlight=False, markup=False)


@operators.command("check")
def check(
    specs: Annotated[
        list[str] | None, typer.Argument(help="Catalogue names or paths; the whole catalogue by default.")
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Test the operators' checks by mutation: trivial answers and mutants must fail, right answers must pass.

    With --url, show the results from the last search for each operator on that coordinator.
    """
    where = url or Settings().url
    if where is None:
        gates = asyncio.run(_check([load_operator(spec) for spec in specs or catalogue_names()]))
    else:
        gates = asyncio.run(_told(specs or catalogue_names(), where, token))
    if as_json:
        emit_json([{"operator": name, **gate.model_dump(mode="json")} for name, gate in gates.items()])
    else:
        _print(gates)
    raise typer.Exit(0 if all(gate.verdict == "passed" for gate in gates.values()) else NOT_ADMITTED)


@operators.command("seed")
def seed(
    spec: OperatorSpec,
    target: Annotated[str, typer.Option(help="Compile target of the kernel, such as sm_90.")] = "sm_90",
) -> None:
    """Print a seed kernel that TorchInductor writes for an operator, with the host code that launches it."""
    if target not in TARGETS:
        raise InvalidInput(f"there is no target '{target}'; known: {', '.join(TARGETS)}", "target")
    report = asyncio.run(_drafted(load_operator(spec), target))
    if not report.draft:
        raise InvalidInput(f"TorchInductor writes no seed kernel for it: {report.reason}", "reference")
    out.print(report.draft, end="", highlight=False, markup=False, soft_wrap=True)


async def _drafted(operator: Operator, target: str) -> TraceReport:
    shapes = all_shapes(operator, seed=0)
    job = TraceJob(
        id=HERE, search=HERE, operator=operator, shapes=shapes, target=target, drafts=True, deadline_s=DRAFT_S
    )
    async with LocalExecutor("trace") as executor:
        return await executor.run(job, TraceReport)


async def _listed(url: str | None, token: str | None) -> list[Operator]:
    async with reach(url, token) as reef:
        return [Operator.model_validate(await reef.operator(summary.name)) async for summary in reef.operators()]


async def _found(spec: str, url: str | None, token: str | None) -> Operator:
    named = operator_of(spec)
    if isinstance(named, Operator):
        return named
    async with reach(url, token) as reef:
        return Operator.model_validate(await reef.operator(named))


async def _told(names: Sequence[str], url: str, token: str | None) -> dict[str, MutationReport]:
    """Read the mutation reports of a coordinator, by operator name."""
    async with reach(url, token) as reef:
        return {name: await _known(reef, name) for name in names}


async def _known(reef: AsyncReef, name: str) -> MutationReport:
    try:
        return MutationReport.model_validate((await reef.gate(name))["gate"])
    except NotFound as error:
        return MutationReport(verdict="untried", reason=error.detail)


async def _check(chosen: Sequence[Operator]) -> dict[str, MutationReport]:
    """The gate's verdict on each operator, by name."""
    async with LocalExecutor("trace") as executor:
        return {operator.name: await _admission(executor, operator) for operator in chosen}


async def _admission(executor: LocalExecutor, operator: Operator) -> MutationReport:
    shapes, target = all_shapes(operator, seed=0), next(iter(TARGETS))
    job = TraceJob(id=HERE, search=HERE, operator=operator, shapes=shapes, target=target)
    report = await executor.run(job, TraceReport)
    return report.gate or MutationReport(verdict="failed", reason=f"the reference does not export: {report.reason}")


def _print(gates: Mapping[str, MutationReport]) -> None:
    table = FoldedTable(title="Mutation testing of the operators' checks")
    for heading in ("operator", "verdict", "trivial killed", "mutants killed", "right ones passed", "seconds"):
        table.add_column(heading)
    for name, gate in gates.items():
        found = Counter(f"{entry.kind} {entry.verdict}" for entry in gate.entries)
        shares = (
            _share(found["trivial killed"], found["trivial survived"]),
            _share(found["mutant killed"], found["mutant survived"]),
            _share(found["honest passed"], found["honest rejected"]),
        )
        table.add_row(name, gate.verdict, *shares, f"{gate.seconds:.1f}")
    out.print(table)
    for name, gate in gates.items():
        if gate.reason:
            out.print(f"{name}: {gate.reason}", highlight=False, markup=False)
        for verdict in LISTED:
            named = "; ".join(entry.name for entry in gate.entries if entry.verdict == verdict)
            if named:
                out.print(f"  {name}, {verdict.replace('_', ' ')}: {named}", highlight=False, markup=False)


def _share(count: int, others: int) -> str:
    return f"{count} of {count + others}"
