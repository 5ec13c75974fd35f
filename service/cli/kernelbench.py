"""`reef kernelbench`: results of searches for KernelBench problems."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from archive.records import SearchState
from kernelreef import AsyncReef
from kernelreef.models import Search
from service.analysis.kernelbench import ProblemResult, fast_shares, model_new, speedups_of
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import FoldedTable, emit_json, err, out
from service.cli.import_ import problem_files
from service.errors import InvalidInput, NotFound
from service.evaluation.figure_labels import in_words
from service.operators.kernelbench import name_of_problem, parts_of_reference
from workers.protocol import Device, Operator, Ratio, Report

NOTE = """\
{problem}: a kernel that Kernelreef found.
Search {search}, candidate {candidate}, {figures}.
Speedup {mid:.2f}x, {low:.2f}x to {high:.2f}x. The host code is the candidate's own.
Running statistics of batch norms are not kept."""
ADMITTED = "ADMITTED against mutation testing, so it may be wrong: {reason}"
"""Mark of a kernel whose search went on though mutation testing fails its operator."""

benchmark = typer.Typer(help="Summarise searches for KernelBench problems.", no_args_is_help=True)


@benchmark.callback()
def group() -> None:
    """Summarise searches for KernelBench problems."""


@benchmark.command("results")
def results(
    device: Annotated[str, typer.Option(help="Device of the results.")] = "h200",
    meant: Annotated[
        Path | None, typer.Option("--of", help="Folder of problems; problems without a search are listed too.")
    ] = None,
    write: Annotated[Path | None, typer.Option("--out", help="Also write a ModelNew file for each problem.")] = None,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Show fast_p over the newest search of each problem, and which problems were not judged."""
    measures = _device(device).measures
    if not measures and write is None:
        raise InvalidInput(
            f"times on {device} are not measured, so there is no fast_p; use --out to write kernels", "device"
        )
    asked = [name_of_problem(path.resolve()) for path in problem_files(meant)] if meant else []
    found = asyncio.run(_results(device, write, url, token))
    known = {result.problem for result in found}
    found += [
        ProblemResult(name, judged=False, reason="there is no search for it") for name in asked if name not in known
    ]
    if not found:
        raise NotFound(f"there is no search for a KernelBench problem on {device}")
    _show(found, device, measures=measures, as_json=as_json)


def _device(name: str) -> Device:
    try:
        return Device.parse(name)
    except ValueError as error:
        raise InvalidInput(str(error), "device") from None


def _show(found: list[ProblemResult], device: str, *, measures: bool, as_json: bool) -> None:
    shares = fast_shares(found) if measures else []
    if as_json:
        emit_json(
            {
                "device": device,
                "figures": in_words(device),
                "fast": [dataclasses.asdict(share) for share in shares],
                "problems": [_document(result) for result in found],
            }
        )
        return
    if shares:
        table = FoldedTable("baseline", "p", "fast_p", "95% (Wilson)", "certainly", "judged", title=in_words(device))
        for share in shares:
            fast = f"{share.count / share.judged:.0%}" if share.judged else "none judged"
            interval = f"{share.low:.0%} to {share.high:.0%}"
            table.add_row(share.baseline, f"{share.p:g}", fast, interval, str(share.certain), str(share.judged))
        out.print(table)
    for result in found:
        if not result.judged or result.reason:
            out.print(f"{result.problem}: {result.reason}", highlight=False, markup=False)


def _document(result: ProblemResult) -> dict[str, object]:
    speedups = {name: ratio.model_dump() for name, ratio in result.speedups.items()}
    return {"problem": result.problem, "judged": result.judged, "reason": result.reason, "speedups": speedups}


async def _results(device: str, write: Path | None, url: str | None, token: str | None) -> list[ProblemResult]:
    """Collect the result of the newest search for each problem."""
    found: dict[str, ProblemResult] = {}
    operators: dict[str, Operator] = {}
    async with reach(url, token) as reef:
        async for search in reef.searches():
            if device not in search.devices or search.operator in found:
                continue
            digest = search.operator_digest
            if digest not in operators:
                operators[digest] = Operator.model_validate(await reef.operator(digest))
            if parts_of_reference(operators[digest]) is not None:
                found[search.operator] = await _result(reef, search, operators[digest], device, write)
    return [found[name] for name in sorted(found)]


async def _result(
    reef: AsyncReef, search: Search, operator: Operator, device: str, write: Path | None
) -> ProblemResult:
    best = await reef.best(search.id, device)
    if best is None:
        judged = search.state is SearchState.DONE
        return ProblemResult(
            search.operator, judged=judged, reason=search.reason or f"its search is {search.state.value}"
        )
    candidate = await reef.candidate(best.candidate)
    said = next((report for report in candidate.reports if report["job"] == best.job), None)
    speedup = Ratio(low=best.speedup.low, mid=best.speedup.mid, high=best.speedup.high)
    if write is not None:
        about = NOTE.format(
            problem=operator.name,
            search=search.id,
            candidate=candidate.id,
            figures=in_words(device),
            **speedup.model_dump(),
        )
        about += "\n" + ADMITTED.format(reason=" ".join(search.admitted.split())) if search.admitted else ""
        _write(write / f"{operator.name}.py", operator, candidate.source, about)
    if search.admitted:
        return ProblemResult(search.operator, judged=False, reason=ADMITTED.format(reason=search.admitted))
    speedups = {} if said is None else speedups_of(Report.model_validate(said), speedup)
    return ProblemResult(search.operator, judged=True, speedups=speedups)


def _write(path: Path, operator: Operator, source: str, note: str) -> None:
    try:
        text = model_new(operator, source, note)
    except InvalidInput as error:
        err.print(f"{path.name} was not written: {error.detail}", highlight=False, markup=False)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    out.print(str(path), highlight=False, markup=False)
