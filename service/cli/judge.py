"""`reef judge`: judge one candidate, without storing anything."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from kernelreef import AsyncReef
from service.cli.connection import AsJson, Token, Url, reach
from service.cli.console import emit_json, out
from service.cli.new import Vary, operator_in_one_step, source_file
from service.cli.remote_judge import judge_elsewhere
from service.cli.watch import Admit, operator_of
from service.errors import InvalidInput
from service.evaluation.floors import memory_floors
from service.evaluation.single import Judge, Judgement, VariantJudgement
from service.fleet.devices import class_served, describe_cards, find_card, local_cards, names_card, read_device
from service.operators.catalogue import load_operator
from service.operators.joined_files import JoinedFiles, read_candidate
from service.settings import Settings
from workers.protocol import Device, Operator, Outcome, Ratio, Report

NOT_CORRECT = 4


def judge(
    spec: Annotated[str, typer.Argument(help="A catalogue name, a path to a spec, or a Python file: FILE.py[:NAME].")],
    candidate: Annotated[
        list[Path],
        typer.Argument(help="Python file with the candidate, its folder, or the file and others that it imports."),
    ],
    device: Annotated[
        str, typer.Option(help="Device to judge on: cuda, h200, rtx4090, model:<target>, ...")
    ] = "model:sm_90",
    vary: Vary = None,
    admit: Admit = False,
    as_json: AsJson = False,
    url: Url = None,
    token: Token = None,
) -> None:
    """Judge one CANDIDATE against SPEC."""
    where = url or Settings().url
    if where is None:
        operator = _operator(spec, device, vary)
        source = read_candidate(candidate, operator.entry)
        judgement = asyncio.run(_judge(operator, source.text, read_device(device, "--device"), admit=admit))
    else:
        source, judgement = asyncio.run(_judge_there(spec, candidate, device, where, token, vary=vary, admit=admit))
    if as_json:
        emit_json(_document(judgement))
    else:
        _print(judgement, source)
    raise typer.Exit(0 if judgement.outcome is Outcome.CORRECT else NOT_CORRECT)


def _operator(spec: str, device: str, vary: str | None) -> Operator:
    file = source_file(spec, vary)
    return load_operator(spec) if file is None else operator_in_one_step(file, device, required=False)


async def _judge(operator: Operator, source: str, device: Device, *, admit: bool) -> Judgement:
    card = _card(device) if device.measures else 0
    async with Judge(operator, device, card=card, data=Settings().measured_dir, admit=admit) as judge:
        return await judge.judge(source)


async def _judge_there(
    spec: str,
    candidate: Sequence[Path],
    device: str,
    url: str,
    token: str | None,
    *,
    vary: str | None,
    admit: bool,
) -> tuple[JoinedFiles, Judgement]:
    async with reach(url, token) as reef:
        file = source_file(spec, vary)
        named = (
            operator_of(spec) if file is None else await asyncio.to_thread(operator_in_one_step, file, "model:sm_90")
        )
        operator = named if isinstance(named, Operator) else Operator.model_validate(await reef.operator(named))
        source = read_candidate(candidate, operator.entry)
        return source, await judge_elsewhere(reef, operator, await _elsewhere(reef, device), source.text, admit=admit)


async def _elsewhere(reef: AsyncReef, name: str) -> Device:
    """Return a device by its name; `cuda` is the hardware class of the service's workers."""
    if not names_card(name):
        return read_device(name, "--device")
    served = {str(worker["device"]) async for worker in reef.workers() if worker["device"]}
    return class_served(name, served, "--device")


def _card(device: Device) -> int:
    """Return the number of a card of this hardware class on this machine."""
    card = find_card(device)
    if card is None:
        raise InvalidInput(f"{device.name}: this machine does not have it; {describe_cards(local_cards())}", "--device")
    return card.number


def _document(judgement: Judgement) -> dict[str, Any]:
    best = judgement.best
    report = best.report if best else None
    return {
        "outcome": judgement.outcome.value,
        "reason": judgement.reason,
        "line": judgement.line,
        "admitted": judgement.admitted,
        "unpaced": judgement.unpaced,
        "device": judgement.device.name,
        "trust": report.trust.value if report and report.trust else None,
        "provenance": report.provenance.value if report else None,
        "speedup": _speedup(best.speedup if best else None),
        "plan": best.plan if best else next((item.plan for item in judgement.variants if item.plan), None),
        "coordinates": dict(best.coordinates) if best else {},
        "stages_s": {stage: round(seconds, 4) for stage, seconds in judgement.stages_s.items()},
        "variants": [_variant(item) for item in judgement.variants],
    }


def _variant(item: VariantJudgement) -> dict[str, Any]:
    return {
        "index": item.index,
        "configuration": dict(item.configuration),
        "outcome": item.outcome.value,
        "reason": item.reason,
        "line": item.line,
        "plan": item.plan,
        "speedup": _speedup(item.speedup),
        "checks": [check.model_dump(mode="json") for check in item.report.checks] if item.report else [],
        "shapes": [shape.model_dump(mode="json") for shape in item.report.shapes] if item.report else [],
    }


def _speedup(gain: Ratio | None) -> dict[str, float] | None:
    return {"low": gain.low, "mid": gain.mid, "high": gain.high} if gain else None


def _print(judgement: Judgement, source: JoinedFiles) -> None:
    colour = "green" if judgement.outcome is Outcome.CORRECT else "red"
    where = f" ({source.place(judgement.line)})" if judgement.line else ""
    out.print(f"[bold {colour}]{judgement.outcome.value}[/]{where}", highlight=False)
    if judgement.reason:
        out.print(judgement.reason, highlight=False, markup=False)
    if judgement.unpaced:
        out.print(judgement.unpaced, highlight=False, markup=False)
    if judgement.admitted:
        said = f"ADMITTED against mutation testing, so the verdict may be wrong: {judgement.admitted}"
        out.print(said, highlight=False, markup=False)
    for remark in judgement.best.report.remarks if judgement.best and judgement.best.report else ():
        out.print(f"remark: {remark}", highlight=False, markup=False)
    for line in in_words(judgement):
        out.print(line, highlight=False, markup=False)


def in_words(judgement: Judgement) -> list[str]:
    """Describe a judgement: each variant, the times on a card, and the seconds per stage."""
    lines = []
    for item in judgement.variants:
        gain = item.outcome.value if item.speedup is None else _gain(item.speedup, item.report, judgement.device)
        lines.append(f"  variant {item.index} {dict(item.configuration)}: {gain}")
    if judgement.device.measures and judgement.best and judgement.best.report:
        lines += _times(judgement.best.report)
    stages = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in judgement.stages_s.items())
    return [*lines, f"on {judgement.device.name}; {stages}"]


def _gain(speedup: Ratio, report: Report | None, device: Device) -> str:
    """Format a speedup with its baseline and provenance."""
    if not device.measures:
        return f"{speedup.low:.3f}x the seed, predicted"
    trust = f", trust {report.trust.value}" if report and report.trust else ""
    base = "seed kernel" if report and report.over_pacer and not report.speedup else "best baseline"
    return f"{speedup.low:.3f}x to {speedup.high:.3f}x the {base}, MEASURED on {device.name}{trust}"


def _times(report: Report) -> list[str]:
    """List the time at each benchmark shape beside its baselines and floors, microseconds."""
    lines, floors = [], memory_floors(report)
    for shape in report.shapes:
        baselines = ", ".join(f"{name} {time_us:.2f} us" for name, time_us in shape.baselines_us.items())
        if shape.mid_us and shape.low_us and shape.high_us:
            took = f"{shape.mid_us:.2f} us ({shape.low_us:.2f} to {shape.high_us:.2f})"
            floor = f"; {floors[shape.shape]}" if shape.shape in floors else ""
            lines.append(f"  {shape.shape}: {took}; {baselines or 'no baseline'}{floor}")
    return lines
