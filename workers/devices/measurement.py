"""One job on a card, from a bundle to the fields of a report: assemble, check, time, relate to the baselines."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import hypot, log
from statistics import NormalDist, median

from workers.assembler import AssembledBundle, MachineCode, assemble
from workers.baselines import Baseline
from workers.commands import PairSide
from workers.devices.assembling import Assemblers
from workers.devices.card_processes import CardFailed, CardProcesses
from workers.devices.controls import TimingControls
from workers.devices.ending import JudgementEnded, timed
from workers.devices.paired_timing import (
    LOOK_CONFIDENCE,
    REST_S,
    CallTime,
    PairedTimer,
    PairedTimes,
    check_cycles,
    reject_below_floor,
)
from workers.devices.trial import CheckDepth, VariantTrial, benchmarks, room_for
from workers.floors import floor_us
from workers.protocol import (
    Bundle,
    CheckResult,
    Graph,
    Operator,
    Outcome,
    Plan,
    Ratio,
    Readings,
    Samples,
    ShapeResult,
    Stage,
)
from workers.targets import Target
from workers.timing import CONFIDENCE, Estimate, weighted

RIVAL_PAIRS = 256
"""Maximum number of pairs per shape against the incumbent, if it stays open which is faster (evaluation protocol
3.4)."""
SAMPLE_DIGITS = 4
"""Decimals of a microsecond in raw samples: thousands of times finer than events resolve."""
CLOCK_DIGITS = 1
"""Decimals of a megahertz in clocks."""
_NORMAL = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)


@dataclass(frozen=True)
class MeasurementContext:
    """Context of all measurements on a card.

    Attributes:
        processes: The processes that use the card.
        assemblers: The processes that assemble kernels.
        target: Specification of the card.
        baselines: Times of the baselines for a pacer, by shape key. They are empty while being measured, unless
            asked to wait, which may take minutes.
        call_times: Call times of pacers, by the pacer's identity and the shape's key.
    """

    processes: CardProcesses
    assemblers: Assemblers
    target: Target
    baselines: Callable[[Operator, tuple[Graph, ...], Bundle, bool], dict[str, Baseline]]
    call_times: defaultdict[tuple[str, str], CallTime] = field(default_factory=lambda: defaultdict(CallTime))


@dataclass
class Measurement:
    """One job.

    Attributes:
        operator: The contract.
        graphs: The reference at every shape.
        bundle: The bundle to judge.
        pacer: The bundle of benchmark plans it is paired with; None if it paces itself.
        setting: Context of all measurements.
        related: True to relate the pacer to the baselines, as soon as they are measured.
        waits: True to wait for the baselines.
        fresh: True if the candidate gets content that is used once, and the card rests before each of its rounds; the
            controls, whose plans are trusted, get their usual content.
        scrutiny: Depth of the candidate's checks.
        controls: Values of the controls; run before the candidate if None.
        checks: Results of the checks so far.
        stages_s: Seconds by stage so far.
    """

    operator: Operator
    graphs: tuple[Graph, ...]
    bundle: Bundle
    pacer: Bundle | None
    setting: MeasurementContext
    related: bool = True
    waits: bool = False
    fresh: bool = False
    scrutiny: CheckDepth = CheckDepth.USUAL
    controls: dict[str, float] | None = None
    checks: tuple[CheckResult, ...] = ()
    stages_s: dict[str, float] = field(default_factory=dict)
    _codes: dict[str, MachineCode] = field(default_factory=dict, init=False)

    def run(self, pairs: int, incumbent: Bundle | None = None) -> dict[str, object]:
        """Judge the bundle. Returns the fields of a report about a correct variant.

        Args:
            pairs: Paired samples per shape against the pacer.
            incumbent: The bundle that a challenger must beat, timed against it directly.

        Raises:
            JudgementEnded: If the variant is not correct.
            CardFailed: If the card or a process that uses it failed.
        """
        pacer = self.pacer or self.bundle.reduced()
        with timed(self.stages_s, "assemble"):
            for bundle in filter(None, (self.bundle, incumbent)):
                self.setting.assemblers.start(bundle)
            if self.pacer is None:
                self._assembled(pacer)
            else:
                self._assemble_judged(pacer)
        self.setting.processes.provide(room_for(self.bundle, pacer, *filter(None, (incumbent,))))
        if self.related:
            # The compilers of the baselines start now, on cores of their own. The oracle drops its answers for their
            # sake, so they start before the controls, whose answers the timings need too.
            self.setting.baselines(self.operator, self.graphs, pacer, False)
        refusal = self._control(pacer) if self.controls is None else None
        with timed(self.stages_s, "assemble"):  # Its kernels for other shapes were assembled beside the controls.
            readings = self._assembled(self.bundle)
        timings = self._timings(pacer, pairs, refusal)
        with timed(self.stages_s, "baselines"):
            baselines = self.setting.baselines(self.operator, self.graphs, pacer, self.waits) if self.related else {}
        shapes = tuple(_shape(timing, baselines.get(timing.shape), readings[timing.shape]) for timing in timings)
        found: dict[str, object] = {"shapes": shapes, **speedups_of(timings, baselines, self._weights())}
        if incumbent is not None:
            self._assemble_judged(incumbent)
            rivals = self._timings(incumbent.reduced(), RIVAL_PAIRS, head_to_head=True)
            for timing in rivals:
                check_cycles(timing)
            speedups = [inverse(timing.slowdown) for timing in rivals]
            found["rival"] = _ratio(weighted(speedups, self._weights()), LOOK_CONFIDENCE)
            of_rivals = {timing.shape: _samples(timing) for timing in rivals}
            found["shapes"] = tuple(
                shape.model_copy(update={"rival_samples": of_rivals[shape.shape]}) for shape in shapes
            )
        return found

    def _assembled(self, bundle: Bundle) -> dict[str, Readings]:
        """Lint and assemble again. Returns readings by shape key."""
        assembled = assemble_again(bundle, self.operator, self.setting.assemblers)
        self._codes.update(assembled.codes)
        return {plan.shape.key: found for plan, found in zip(bundle.plans, assembled.readings, strict=True)}

    def _assemble_judged(self, bundle: Bundle) -> None:
        """Assemble a bundle that was judged before: a difference is not the candidate's fault."""
        try:
            self._assembled(bundle)
        except JudgementEnded as ended:
            raise CardFailed(f"a kernel to compare with cannot be assembled here: {ended}") from ended

    def _timings(
        self, against: Bundle, pairs: int, refusal: JudgementEnded | None = None, *, head_to_head: bool = False
    ) -> list[PairedTimes]:
        """Check the candidate and time it against another bundle, at every benchmark shape.

        After a refusal by the controls it is only checked, since checks say better why. Against the incumbent,
        `head_to_head`, it is already checked, and knowing the faster one is enough.
        """
        with timed(self.stages_s, "load"):
            bundles = {PairSide.CANDIDATE: self.bundle, PairSide.PACER: against}
            processes = self.setting.processes
            trial = VariantTrial(processes, self.operator, self.graphs, bundles, self._codes, fresh=self.fresh)
        try:
            if not head_to_head:
                with timed(self.stages_s, "check"):
                    trial.check(self.scrutiny)
            if refusal is not None:
                raise refusal
            with timed(self.stages_s, "time"):
                time_shape = partial(self._time, trial, against.identity, pairs=pairs, head_to_head=head_to_head)
                timings = [time_shape(index, plan) for index, plan in benchmarks(self.bundle)]
                trial.check_idle()
                return timings
        finally:
            self.checks = trial.checks or self.checks

    def _control(self, pacer: Bundle) -> JudgementEnded | None:
        """Run the controls. Returns their refusal of a candidate that paces itself: the card is not at fault.

        Raises:
            CardFailed: If a control has another result than it must have, or refuses a pacer that was judged before.
        """
        call_time = self.setting.call_times[pacer.identity, pacer.benchmarks[0].shape.key]
        processes = self.setting.processes
        try:
            with timed(self.stages_s, "controls"):
                controls = TimingControls(processes, self.operator, self.graphs, pacer, self._codes, call_time)
                self.controls = controls.run()
        except JudgementEnded as ended:
            if self.pacer is not None:
                raise CardFailed(f"a control failed: a correct plan is refused, {ended}") from ended
            return ended
        return None

    def _time(
        self, trial: VariantTrial, pacer: str, index: int, plan: Plan, *, pairs: int, head_to_head: bool
    ) -> PairedTimes:
        key = plan.shape.key
        other = next(at for at, plan in benchmarks(trial.bundles[PairSide.PACER]) if plan.shape.key == key)
        plans = {PairSide.CANDIDATE: index, PairSide.PACER: other}
        call_time, rest_s = self.setting.call_times[pacer, key], REST_S if self.fresh else 0.0
        timer = PairedTimer(trial, plans, call_time, untrusted=head_to_head, rest_s=rest_s)
        timing = timer.time(pairs, PairedTimes.is_decided if head_to_head else PairedTimes.is_hopeless)
        graph = next(graph for graph in self.graphs if graph.shape.key == key)
        reject_below_floor(timing, median(timing.candidate_us), floor_us(self.operator, graph, self.setting.target))
        return timing

    def _weights(self) -> list[float]:
        return [plan.shape.weight for _, plan in benchmarks(self.bundle)]


def _shape(timing: PairedTimes, baseline: Baseline | None, readings: Readings) -> ShapeResult:
    low, mid, high = timing.slowdown.bounds()
    pacer_us = median(timing.pacer_us) if baseline is None else baseline.pacer_us
    return ShapeResult(
        shape=timing.shape,
        readings=readings,
        pacer_us=pacer_us,
        baselines_us={} if baseline is None else baseline.baselines_us,
        copy_us=None if baseline is None else baseline.copy_us,
        mid_us=pacer_us * mid,
        low_us=pacer_us * low,
        high_us=pacer_us * high,
        pairs=len(timing.candidate_us),
        samples=_samples(timing),
    )


def _samples(timing: PairedTimes) -> Samples:
    candidate_us, other_us = (
        tuple(round(time_us, SAMPLE_DIGITS) for time_us in times) for times in (timing.candidate_us, timing.pacer_us)
    )
    clocks_mhz = tuple(round(clock, CLOCK_DIGITS) for clock in (*timing.candidate_mhz, *timing.pacer_mhz))
    return Samples(candidate_us=candidate_us, other_us=other_us, calls=timing.calls, clocks_mhz=clocks_mhz)


def assemble_again(bundle: Bundle, operator: Operator, assemblers: Assemblers) -> AssembledBundle:
    """Lint and assemble a bundle that a trace worker has assembled.

    Raises:
        JudgementEnded: If it is refused, or its machine code differs from the trace side's.
    """
    assembled = assemble(bundle, operator, assemblers.start(bundle))
    if assembled.outcome is not None or assembled.bundle is None:
        raise JudgementEnded(
            Stage.ASSEMBLE, assembled.outcome or Outcome.PLAN_REJECTED, assembled.reason, assembled.line
        )
    if assembled.bundle.cubins != bundle.cubins:
        reason = "the machine code differs from what the trace worker assembled with the same ptxas"
        raise JudgementEnded(Stage.ASSEMBLE, Outcome.PLAN_REJECTED, reason)
    return assembled


def speedups_of(
    timings: Sequence[PairedTimes], baselines: Mapping[str, Baseline], weights: Sequence[float]
) -> dict[str, Ratio | None]:
    """Return a report's fields `over_pacer`, `pacer_speedup` and `speedup`: weighted geometric means over the shapes.

    The last two are None if a shape has no baseline.

    Args:
        timings: One per benchmark shape.
        baselines: Baselines by shape key.
        weights: Weights of the shapes, in the order of the timings.
    """
    gains = [inverse(timing.slowdown) for timing in timings]
    over_pacer = _ratio(weighted(gains, weights))
    found = (baselines.get(timing.shape) for timing in timings)
    best = [baseline.best() if baseline else None for baseline in found]
    known = [figure for figure in best if figure is not None]
    if len(known) < len(timings):
        return {"over_pacer": over_pacer, "pacer_speedup": None, "speedup": None}
    worth = [
        Estimate(log(figure.over_pacer), figure.half_width / _NORMAL, gain.freedom)
        for figure, gain in zip(known, gains, strict=True)
    ]
    joint = [
        Estimate(gain.mean + other.mean, hypot(gain.error, other.error), gain.freedom)
        for gain, other in zip(gains, worth, strict=True)
    ]
    return {
        "over_pacer": over_pacer,
        "pacer_speedup": _ratio(weighted(worth, weights)),
        "speedup": _ratio(weighted(joint, weights)),
    }


def inverse(estimate: Estimate) -> Estimate:
    """Return the same comparison the other way round."""
    return Estimate(-estimate.mean, estimate.error, estimate.freedom)


def _ratio(estimate: Estimate, confidence: float = CONFIDENCE) -> Ratio:
    low, mid, high = estimate.bounds(confidence)
    return Ratio(low=low, mid=mid, high=high)
