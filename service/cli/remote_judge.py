"""Judge one candidate on another coordinator by a search of two kernels: the operator's seed and the candidate.

The search stays in that coordinator's archive like any other; the verdicts are read from it.
"""

from archive.descriptors import coordinates
from archive.records import SearchState
from kernelreef import AsyncReef, models
from kernelreef.asynchronous import SearchOptions
from service.errors import InvalidInput, ServiceError
from service.evaluation.single import Judgement, VariantJudgement
from service.evaluation.speedups import gain, times_us
from service.operators.sources import digest, parse
from workers.protocol import Device, Operator, Outcome, Report, Shape, ShapeRole


async def judge_elsewhere(
    reef: AsyncReef, operator: Operator, device: Device, source: str, *, admit: bool = False
) -> Judgement:
    """Judge a candidate for an operator on a device; with `admit` even if mutation testing fails the operator.

    A refused seed is a verdict on the seed: the next one takes its place, in a search of its own.

    Raises:
        InvalidInput: If the operator cannot be judged, or has no seed kernel to compare the candidate with.
        ServiceError: If the coordinator refuses or fails.
    """
    if not operator.seeds:
        raise InvalidInput(f"operator '{operator.name}' has no seed kernel to compare the candidate with", "seeds")
    try:
        parse(source)
    except SyntaxError as error:
        return Judgement(device, Outcome.SYNTAX_ERROR, error.msg, error.lineno, (), {})
    judged = [await _beside(reef, operator, device, (operator.seeds[0], source), admit=admit)]
    for seed in operator.seeds[1:]:
        if not judged[-1].unpaced:
            break
        judged.append(await _beside(reef, operator, device, (seed, source), admit=admit))
    return judged[-1]


async def _beside(
    reef: AsyncReef, operator: Operator, device: Device, pair: tuple[str, str], *, admit: bool
) -> Judgement:
    """Judge a pair of seed and candidate, and return the verdict on the candidate."""
    seeds = pair[:1] if digest(pair[0]) == digest(pair[1]) else pair
    asked = Operator.model_validate({**operator.model_dump(), "seeds": seeds})
    options = SearchOptions(devices=[device.name], emitters=["tune"], axes=["num_warps"], evaluations=len(seeds))
    search = await reef.submit(asked, **({**options, "admit": True} if admit else options))
    ended = await reef.wait(search.id)
    found = [candidate async for candidate in reef.candidates(search.id, emitter="seed")]
    judged = len(found) == len(seeds) and all(candidate.outcome for candidate in found)
    refused = judged and found[-1].outcome != Outcome.CORRECT
    if not judged or (ended.state is not SearchState.DONE and not refused):
        raise InvalidInput(f"the coordinator could not judge it: {ended.reason or ended.state.value}", "operator")
    first, last = await reef.candidate(found[-1].id), await reef.candidate(found[0].id)
    return _judgement(ended, device, None if refused else first, last)


def _judgement(
    search: models.Search, device: Device, seed: models.Candidate | None, candidate: models.Candidate
) -> Judgement:
    """Build the verdict on a candidate, relative to the seed if times are predicted; None if that is refused."""
    shapes = [Shape.model_validate(shape) for shape in search.shapes]
    weights = {shape.key: shape.weight for shape in shapes if shape.role is ShapeRole.BENCHMARK}
    right = [report for report in _reports(seed) if report.outcome is Outcome.CORRECT] if seed else []
    baseline_us = times_us(right[0]) if right else {}
    refusal = search.refused_seeds or search.reason
    unpaced = "" if seed else f"no seed kernel is correct, so times are relative to nothing: {refusal}"
    reports = {report.variant: report for report in _reports(candidate)}
    stages_s = dict(candidate.stages_s)
    for report in reports.values():
        for stage, seconds in report.stages_s.items():
            stages_s[stage] = stages_s.get(stage, 0.0) + seconds
    variants = []
    for variant in candidate.variants:
        judged = reports.get(variant.index)
        stopped = Outcome(variant.outcome or candidate.outcome or Outcome.WORKER_LOST)
        plan = next((plan for plan in variant.plans if plan.shape in weights), None)
        variants.append(
            VariantJudgement(
                index=variant.index,
                configuration=variant.configuration,
                outcome=judged.outcome if judged else stopped,
                reason=judged.reason if judged else variant.reason,
                line=judged.line if judged else variant.line,
                plan=variant.bundle,
                speedup=gain(judged, baseline_us, weights) if judged else None,
                coordinates=coordinates(plan.readings) if plan and judged else {},
                report=judged,
            )
        )
    outcome = Outcome(candidate.outcome or Outcome.WORKER_LOST)
    marks = {"admitted": search.admitted, "unpaced": unpaced}
    return Judgement(device, outcome, candidate.reason, candidate.line, tuple(variants), stages_s, **marks)


def _reports(candidate: models.Candidate) -> list[Report]:
    """Parse a candidate's reports, oldest first, so that the last one of each variant counts.

    Raises:
        ServiceError: If a report has a version that this side cannot read.
    """
    try:
        return [Report.model_validate(dict(report)) for report in candidate.reports]
    except ValueError as error:
        raise ServiceError("the coordinator's reports have another version; use the same release here") from error
