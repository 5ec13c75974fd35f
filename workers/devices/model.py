"""Device `model`: correctness by the interpreter, time by prediction. Needs no GPU.

It judges plans that it can execute, on small shapes and secret inputs, and reports `not_interpretable` if it cannot
know. Nothing it reports was measured.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache, partial
from importlib.metadata import version
from pathlib import Path

import torch

from workers import sandbox
from workers.assembler import assemble, toolchain_of
from workers.checks import CHECKS, Check, CheckEvidence, CheckResults, Expectation
from workers.devices.base import DeviceBench
from workers.devices.ending import JudgementEnded, timed
from workers.devices.finalist_checks import FAR_INDICES, FINAL_CHECKS, RANDOM_SHAPES, random_plans, skipped
from workers.devices.interpretation import InterpretationUnusable, InterpretedResult, interpret
from workers.devices.prediction import sampled_plans
from workers.devices.selection import TOTAL_BYTES, SelectedRun, contract_bytes, cost, select_cases, within
from workers.devices.traffic import ExecutedTraffic, extrapolated, floor_of, predicted_us, raised, sampled
from workers.errors import BadMessage, ToolMissing
from workers.inputs import draw
from workers.interpreter import InterpretReply, MeteredTraffic, warm_up
from workers.protocol import (
    FIRST_CARD,
    REASON_CHARS,
    Bundle,
    CardShare,
    CheckResult,
    Device,
    FinalJob,
    MeasureJob,
    Operator,
    Outcome,
    Plan,
    Provenance,
    Readings,
    Report,
    ShapeResult,
    Stage,
    TrustGrounds,
)
from workers.reference import ReferenceFailed
from workers.targets import TARGETS
from workers.tracer.compiler import rehearse

SEED_BYTES = 32
"""Bytes of the secret that input values follow from, new for every job."""
LIMIT_S = 30.0
"""Maximum seconds of processor time of the interpreter; honest kernels need under two."""
NO_CARD = "predicted devices have no card to run a sanitizer on"
"""Reason why finalists are not sanitised here."""


@dataclass(frozen=True)
class KnownTraffic:
    """Traffic of a variant that the interpreter saw.

    Attributes:
        sampled: Work of each launch at benchmark shapes, by shape key, if it could be sampled.
        executed: Work at the largest shape that was executed.
        remarks: Dangers of the kernels that only a card would show.
    """

    sampled: dict[str, tuple[MeteredTraffic, ...]]
    executed: ExecutedTraffic
    remarks: tuple[str, ...]


class ModelDevice(DeviceBench):
    """Judges variants for a target on a machine that need not have it.

    Every job raises `BadMessage` if it is for another target or has no source, and `SandboxFailed` if the sandbox
    cannot be set up.
    """

    kind = "model"
    provenance = Provenance.PREDICTED
    confirms = False

    def __init__(
        self,
        device: Device,
        worker: str,
        seat: CardShare = FIRST_CARD,
        folder: Path | None = None,
        checks: Mapping[str, Check] = CHECKS,
    ) -> None:
        """Warm up the interpreter and the compiler, so that forked children start with them.

        Raises:
            ToolMissing: If the target is unknown.
        """
        super().__init__(device, worker, seat, folder, checks)
        if device.target not in TARGETS:
            raise ToolMissing(f"there is no target '{device.target}'; known: {', '.join(TARGETS)}")
        self._target = TARGETS[device.target]
        warm_up()
        rehearse(self._target)

    def versions(self) -> dict[str, str]:
        """Return versions of everything that influences a verdict or a prediction."""
        return _versions(self.device.target)

    def measure(self, job: MeasureJob) -> Report:
        """Execute the small plans, check them, and predict the times of the benchmark shapes."""
        check_results, stages_s = CheckResults(self.checks), dict[str, float]()
        report = self._report(job)
        found: dict[str, object] = {}
        seed = job.seed or secrets.token_hex(SEED_BYTES)
        try:
            traffic = _judge(job, bytes.fromhex(seed), check_results, stages_s)
            found |= {"shapes": self._predict(job, traffic, stages_s), "remarks": traffic.remarks}
        except JudgementEnded as ended:
            found = dict(ended.found)
        found |= {"checks": check_results.results(), "stages_s": stages_s, "seed": seed}
        return report.model_copy(update=found)

    def examine(self, job: FinalJob) -> Report:
        """Execute the random shapes that are small enough. Nothing can be sanitised here."""
        report, stages_s = self._report(job), dict[str, float]()
        results = {name: skipped(name, NO_CARD) for name in FINAL_CHECKS}
        results[FAR_INDICES] = skipped(FAR_INDICES, job.unreached or NO_CARD)
        found: dict[str, object] = {}
        try:
            results[RANDOM_SHAPES] = _run_random_shapes(job, stages_s)
        except JudgementEnded as ended:
            if ended.found["outcome"] is Outcome.NOT_INTERPRETABLE:
                results[RANDOM_SHAPES] = skipped(RANDOM_SHAPES, str(ended))
            else:
                results[RANDOM_SHAPES] = CheckResult(name=RANDOM_SHAPES, verdict="failed", detail=str(ended))
                found = {**ended.found, "stage": Stage.FINAL, "reason": f"at a random shape: {ended}"[:REASON_CHARS]}
        return report.model_copy(update={**found, "checks": tuple(results.values()), "stages_s": stages_s})

    def close(self) -> None:
        """Do nothing."""

    def _report(self, job: MeasureJob | FinalJob) -> Report:
        """Return a report without findings."""
        if job.source is None or job.bundle.target != self.device.target:
            raise BadMessage(f"{self.device.name} needs a source and plans for {self.device.target}; job {job.id}")
        grounds = TrustGrounds(jail=sandbox.probe(), replayed=True, measured=False)
        return self._blank(job, grounds)

    def _predict(self, job: MeasureJob, known: KnownTraffic, stages_s: dict[str, float]) -> tuple[ShapeResult, ...]:
        benchmarked = job.bundle.model_copy(update={"plans": job.bundle.benchmarks})
        with timed(stages_s, "assemble"):
            assembled = assemble(benchmarked, job.operator)
        if assembled.outcome is not None or assembled.bundle is None:
            outcome = assembled.outcome or Outcome.PLAN_REJECTED
            raise JudgementEnded(Stage.ASSEMBLE, outcome, assembled.reason, assembled.line)
        if not assembled.bundle.cubins.items() <= job.bundle.cubins.items():
            reason = "the machine code differs from what the trace worker assembled with the same ptxas"
            raise JudgementEnded(Stage.ASSEMBLE, Outcome.PLAN_REJECTED, reason)
        with timed(stages_s, "predict"):
            pairs = zip(benchmarked.plans, assembled.readings, strict=True)
            return tuple(self._predict_shape(job, plan, readings, known) for plan, readings in pairs)

    def _predict_shape(self, job: MeasureJob, plan: Plan, readings: Readings, known: KnownTraffic) -> ShapeResult:
        key = plan.shape.key
        graph = next(graph for graph in job.graphs if graph.shape.key == key)
        floor = floor_of(job.operator, graph, plan)
        if key in known.sampled:
            readings = sampled(readings, known.sampled[key])
            used = raised(readings, floor)
        else:
            used = raised(extrapolated(readings, known.executed, graph), floor)
        time_us = predicted_us(used, plan, floor, self._target)
        return ShapeResult(shape=key, readings=readings, mid_us=time_us, low_us=time_us, high_us=time_us)


@cache
def _versions(target: str) -> dict[str, str]:
    return {name: version(name) for name in ("torch", "kernelreef")} | toolchain_of(TARGETS[target]).versions


def _judge(job: MeasureJob, seed: bytes, check_results: CheckResults, stages_s: dict[str, float]) -> KnownTraffic:
    """Execute and check."""
    _require_own_compiler(job.bundle)
    cases = select_cases(job.bundle, job.graphs, job.operator)
    if not cases:
        reason = "every shape is too large to be executed on a CPU; widen the operator's ranges downwards"
        raise JudgementEnded(Stage.CHECK, Outcome.NOT_INTERPRETABLE, reason)
    if len(cases) == 1:
        cases = [*cases, *cases]  # One of two plans has its buffers close together.
    plans = sampled_plans(job.bundle)
    reply = _execute(job, cases, plans, seed, check_results, stages_s)
    sampled = {plan.shape.key: traffic for plan, traffic in zip(plans, reply.sampled, strict=True) if traffic}
    last = cases[-1]
    done = ExecutedTraffic(reply.finished[-1], contract_bytes(job.operator, last.graph), last.graph)
    return KnownTraffic(sampled, done, reply.remarks)


def _require_own_compiler(bundle: Bundle) -> None:
    """Refuse plans that the interpreter cannot compile again."""
    own = version("triton")
    if bundle.toolchain is not None and bundle.toolchain.triton != own:
        reason = f"compiled by Triton {bundle.toolchain.triton}, and this worker interprets what Triton {own} compiles"
        raise JudgementEnded(Stage.CHECK, Outcome.NOT_INTERPRETABLE, reason)


def _run_random_shapes(job: FinalJob, stages_s: dict[str, float]) -> CheckResult:
    """Run a finalist's random shapes, as many as the interpreter can in bounded time."""
    graphs = {graph.shape.key: graph for graph in job.graphs}
    plans = list(random_plans(job.bundle, job.operator))
    costs = {key: cost(job.operator, graph) for key, graph in graphs.items()}
    every = [SelectedRun(plan, graphs[plan.shape.key], draws, costs[plan.shape.key]) for _, plan, draws in plans]
    cases = within(every, TOTAL_BYTES)
    if not cases:
        return skipped(RANDOM_SHAPES, "no random shape is small enough to be executed on a CPU")
    _execute(job, cases, (), secrets.token_bytes(SEED_BYTES), CheckResults(CHECKS), stages_s)
    detail = f"{len(cases)} of {len(plans)} shapes, two draws each, in the interpreter"
    return CheckResult(name=RANDOM_SHAPES, verdict="passed", detail=detail)


def _execute(
    job: MeasureJob | FinalJob,
    cases: Sequence[SelectedRun],
    plans: Sequence[Plan],
    seed: bytes,
    check_results: CheckResults,
    stages_s: dict[str, float],
) -> InterpretReply:
    """Execute cases on secret inputs, check them, and sample the traffic of larger plans."""
    drawn = [[draw(job.operator, case.plan.shape, name, seed) for name in case.draws] for case in cases]
    try:
        with timed(stages_s, "interpret"):
            interpretation = interpret(job, cases, drawn, plans, min(LIMIT_S, job.deadline_s))
    except InterpretationUnusable as unusable:
        raise JudgementEnded(Stage.CHECK, Outcome.NOT_INTERPRETABLE, str(unusable)) from unusable
    with timed(stages_s, "check"), _reference_computes():
        done = [
            (case, name, given, result)
            for case, inputs, results in zip(cases, drawn, interpretation.results, strict=False)
            for name, given, result in zip(case.draws, inputs, results, strict=True)
        ]
        for number, each in enumerate(done):
            evidence = _evidence(job.operator, *each)
            if check_results.examine(evidence, partial(_again, job, *each[:2])) is None:
                continue
            check_results.clarify(evidence, (_evidence(job.operator, *later) for later in done[number + 1 :]))
            failure, note = check_results.failure, interpretation.reply.note
            if failure is not None and failure.outcome is not None:
                reason = failure.reason + (f"; {note}" if note else "")
                raise JudgementEnded(Stage.CHECK, failure.outcome, reason[:REASON_CHARS])
    reply = interpretation.reply
    if reply.outcome is not None:
        where = cases[len(reply.finished)].plan.shape.key
        raise JudgementEnded(Stage.CHECK, reply.outcome, f"{reply.reason} ({where})", reply.line)
    return reply


def _again(job: MeasureJob | FinalJob, case: SelectedRun, name: str, check: str, count: int) -> Iterator[CheckEvidence]:
    """Execute a case on so many fresh contents of one draw: evidence by which a check decides a doubt."""
    again = replace(case, draws=(name,) * count)
    seeds = [secrets.token_bytes(SEED_BYTES) for _ in range(count)]
    drawn = [draw(job.operator, case.plan.shape, name, seed) for seed in seeds]
    try:
        interpretation = interpret(job, [again], [drawn], (), min(LIMIT_S, job.deadline_s))
    except InterpretationUnusable as unusable:
        raise JudgementEnded(Stage.CHECK, Outcome.NOT_INTERPRETABLE, str(unusable)) from unusable
    if interpretation.reply.outcome is not None:
        raise JudgementEnded(Stage.CHECK, interpretation.reply.outcome, interpretation.reply.reason)
    for given, result in zip(drawn, interpretation.results[0], strict=True):
        yield _evidence(job.operator, case, name, given, result)


@contextmanager
def _reference_computes() -> Iterator[None]:
    """End a judgement where the reference itself fails."""
    try:
        yield
    except ReferenceFailed as failed:
        raise JudgementEnded(Stage.CHECK, Outcome.TRACE_CRASHED, str(failed)) from failed


def _evidence(
    operator: Operator, case: SelectedRun, name: str, inputs: tuple[torch.Tensor, ...], result: InterpretedResult
) -> CheckEvidence:
    return CheckEvidence(
        operator=operator,
        shape=case.plan.shape,
        draw=name,
        inputs=inputs,
        inputs_after=result.inputs_after,
        outputs=result.outputs,
        reference=Expectation(operator, case.graph, inputs, name),
        overwritten=case.plan.overwritten,
    )
