"""Trajectories: the steps of a search as records for training. docs/reference/trajectories.md describes the schema."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from math import log
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, JsonValue

from archive.records import CandidateRecord, Exchange, SearchRecord
from archive.store import Store
from kernelreef.models import Provenance
from service.analysis.lineage import DeviceResult, JudgedCandidate, Lineage, LineageStep
from service.evaluation.figure_labels import provenance, relative_to
from workers.protocol import Operator, Outcome, Ratio

SCHEMA_VERSION: Literal[1] = 1
"""Version of the records; it rises when a field changes its meaning or is removed."""

Which = Literal["all", "gains"]
"""Selection of steps: all evaluated ones, or correct ones whose gain over the parent has a lower bound above 1."""

GAIN_BOUNDS = (-0.25, 1.0)
"""Bounds of the reward of correct kernels, the logarithm of the gain. A correct slow kernel earns more than a wrong
one, and an e-fold gain earns the maximum."""
WRONG = -0.5
"""Reward of a kernel that ran and was wrong."""
UNUSABLE = -1.0
"""Reward of a candidate whose kernels never ran."""
NO_VERDICT = (Outcome.WORKER_LOST, Outcome.NOT_INTERPRETABLE, Outcome.NOT_RECORDED)
"""Outcomes that say nothing about the candidate and give no reward."""
RAN = (
    Outcome.WRONG_RESULT,
    Outcome.WRONG_OUTPUT_TYPE,
    Outcome.INPUT_MUTATED,
    Outcome.OUT_OF_BOUNDS,
    Outcome.NONDETERMINISTIC,
    Outcome.PRECISION,
    Outcome.DEVICE_FAULT,
    Outcome.HANG,
    Outcome.BELOW_FLOOR,
)
"""Outcomes of candidates that compiled and were executed."""


class _TrajectoryPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrajectoryGain(_TrajectoryPart):
    """Speed ratio with its bounds."""

    low: float
    mid: float
    high: float


class TrajectoryParent(_TrajectoryPart):
    """Parent of a step, with its outcome and report on the device; None if it was never judged there."""

    candidate: str
    source: str
    outcome: str | None
    report: str | None


class TrajectoryExchange(_TrajectoryPart):
    """Prompt and answer, as sent and received."""

    backend: str
    model: str
    strategy: str
    template: str
    system: str
    prompt: str
    answer: str | None
    truncated: bool
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    outcome: str | None
    reason: str


class Trajectory(_TrajectoryPart):
    """Step of a search on one device. Only figures with the `provenance` `measured` were measured."""

    schema_version: Literal[1] = SCHEMA_VERSION
    search: str
    operator: str
    operator_digest: str
    device: str
    step: int
    candidate: str
    emitter: str
    note: str
    parents: tuple[TrajectoryParent, ...]
    exchanges: tuple[TrajectoryExchange, ...]
    source: str
    outcome: str
    reason: str
    line: int | None
    variant: int | None
    configuration: dict[str, JsonValue]
    report: str | None
    gain_over_parent: TrajectoryGain | None
    gain_over_seed: TrajectoryGain | None
    speedup: TrajectoryGain | None
    speedup_relative_to: str
    readings_before: dict[str, JsonValue]
    readings_after: dict[str, JsonValue]
    provenance: Provenance
    protocol_version: int | None
    reward: float | None = None
    admitted: str = ""


@dataclass(frozen=True)
class StepReward:
    """Reward of a step to a candidate: its outcome on the device, and the gain that the reward follows from."""

    outcome: str
    gain: Ratio | None
    reward: float | None


async def trajectories(
    store: Store, search: SearchRecord, which: Which = "all", *, rewards: bool = False
) -> AsyncIterator[Trajectory]:
    """Yield the evaluated steps of a search in the order of proposals, one record per device.

    Args:
        store: Archive with the search.
        search: The search.
        which: `gains` keeps only steps whose gain over the parent has a lower bound above 1.
        rewards: True to fill in `reward` and leave out steps without one.
    """
    lineage = await Lineage.open(store, search)
    operator = Operator.model_validate_json((await store.operators.get(search.operator)).document)
    async for step in lineage.steps():
        for record in _records(lineage, operator, step):
            rewarded = record.model_copy(update={"reward": reward(record)}) if rewards else record
            gained = not search.admitted and record.gain_over_parent is not None and record.gain_over_parent.low > 1
            if (which == "all" or gained) and not (rewards and rewarded.reward is None):
                yield rewarded


def reward(record: Trajectory) -> float | None:
    """Return the reward of a step, from -1 to 1; None if its outcome says nothing about the candidate.

    Nor does an outcome of an operator that mutation testing fails: wrong kernels may be correct there. Otherwise a
    correct kernel earns the natural logarithm of the gain's lower bound, over the parent or else over the seed, within
    `GAIN_BOUNDS`. A kernel that ran and was wrong earns `WRONG`; one that never ran earns `UNUSABLE`.
    """
    return None if record.admitted else reward_of(record.outcome, record.gain_over_parent or record.gain_over_seed)


def reward_of(outcome: str, gain: TrajectoryGain | Ratio | None) -> float | None:
    """Return the reward of an outcome with a gain; `reward` says how large."""
    if outcome in NO_VERDICT:
        return None
    if outcome != Outcome.CORRECT:
        return WRONG if outcome in RAN else UNUSABLE
    least, most = GAIN_BOUNDS
    return None if gain is None else max(least, min(most, log(gain.low)))


async def reward_over(
    store: Store, search: SearchRecord, candidate: CandidateRecord, over: str | None, device: str
) -> StepReward:
    """Return the reward of a step from one candidate of a search to another, whatever its parents are.

    Args:
        store: Archive with the search.
        search: The search.
        candidate: An evaluated candidate.
        over: Id of the candidate that the step starts from; None for the search's first seed.
        device: Device of the search.
    """
    lineage = await Lineage.open(store, search)
    judged = await lineage.judged({candidate.id, *([over] if over else [])})
    child = judged[candidate.id]
    gain = lineage.over(child, judged[over], device) if over else lineage.over_seed(child, device)
    verdict = _verdict(child, child.standings.get(device))
    earned = None if search.admitted else reward_of(verdict["outcome"], gain)
    return StepReward(verdict["outcome"], gain, earned)


def _records(lineage: Lineage, operator: Operator, step: LineageStep) -> Iterator[Trajectory]:
    child, search = step.child.candidate, lineage.search
    for device in search.devices:
        standing = step.child.standings.get(device)
        over = lineage.over_parents(step, device)
        parent = over[1] if over else next(iter(step.parents), None)
        before = parent.standings.get(device) if parent else None
        yield Trajectory(
            search=search.id,
            operator=operator.name,
            operator_digest=operator.digest,
            device=device,
            step=child.ordinal,
            candidate=child.id,
            emitter=child.emitter,
            note=child.note,
            parents=tuple(_parent(each, device) for each in step.parents),
            exchanges=tuple(_exchange(each) for each in step.exchanges),
            source=child.source,
            gain_over_parent=_gain(over[0] if over else None),
            gain_over_seed=_gain(lineage.over_seed(step.child, device)),
            speedup_relative_to=relative_to(device, search),
            readings_before=dict(before.readings) if before else {},
            provenance=provenance(device),
            admitted=search.admitted,
            **_verdict(step.child, standing),
        )


def _verdict(judged: JudgedCandidate, standing: DeviceResult | None) -> dict[str, Any]:
    """Return the verdict on a candidate on a device; without a report, that on the candidate as a whole."""
    report = standing.report if standing else None
    final = report or judged.candidate
    return {
        "outcome": final.outcome,
        "reason": final.reason,
        "line": final.line,
        "variant": report and report.variant,
        "configuration": dict(standing.configuration) if standing else {},
        "report": report and report.job,
        "speedup": _gain(report.speedup if report else None),
        "readings_after": dict(standing.readings) if standing else {},
        "protocol_version": report and report.protocol_version,
    }


def _parent(parent: JudgedCandidate, device: str) -> TrajectoryParent:
    standing = parent.standings.get(device)
    return TrajectoryParent(
        candidate=parent.candidate.id,
        source=parent.candidate.source,
        outcome=standing.report.outcome.value if standing else None,
        report=standing.report.job if standing else None,
    )


def _exchange(exchange: Exchange) -> TrajectoryExchange:
    return TrajectoryExchange(
        backend=exchange.backend,
        model=exchange.model,
        strategy=exchange.strategy,
        template=exchange.template,
        system=exchange.system,
        prompt=exchange.user,
        answer=exchange.text,
        truncated=exchange.truncated,
        input_tokens=exchange.input_tokens,
        output_tokens=exchange.output_tokens,
        cost_usd=exchange.cost_usd,
        outcome=exchange.outcome,
        reason=exchange.outcome_reason or exchange.reason,
    )


def _gain(ratio: Ratio | None) -> TrajectoryGain | None:
    return None if ratio is None else TrajectoryGain(low=ratio.low, mid=ratio.mid, high=ratio.high)
