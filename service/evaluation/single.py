"""Judgement of one candidate outside any search: traced, checked and timed against the operator's seed; not stored.

Predicted speedups are relative to the seed. Where times are measured the seed is the pacer, and speedups are relative
to the best baseline.
"""

import secrets
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archive.descriptors import coordinates
from service.errors import InvalidInput, ServiceError
from service.evaluation.executor_client import COMMAND, LocalExecutor
from service.evaluation.jobs import seed_trace_s
from service.evaluation.speedups import gain, over_pacer, times_us, weights_of
from service.operators.shapes import all_shapes
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Bundle,
    Device,
    Graph,
    MeasureJob,
    Operator,
    Outcome,
    Ratio,
    Report,
    ShapeRole,
    TracedVariant,
    TraceJob,
    TraceReport,
)

HERE = "judge"
"""Placeholder for the ids of search, candidate and job, in jobs and reports outside a search."""


@dataclass(frozen=True)
class VariantJudgement:
    """Verdict on one variant; `plan` is its bundle's identity, None if it has no bundle."""

    index: int
    configuration: Mapping[str, Any]
    outcome: Outcome
    reason: str
    line: int | None
    plan: str | None = None
    speedup: Ratio | None = None
    coordinates: Mapping[str, Any] = field(default_factory=dict)
    report: Report | None = None


@dataclass(frozen=True)
class Judgement:
    """Verdict on a candidate: that of its best variant. `stages_s` are seconds by stage, over all variants.

    `admitted` is the reason for which mutation testing failed the operator, if it was judged all the same. `unpaced` is
    the reason why no seed is correct, if none is: then times are relative to nothing.
    """

    device: Device
    outcome: Outcome
    reason: str
    line: int | None
    variants: tuple[VariantJudgement, ...]
    stages_s: Mapping[str, float]
    admitted: str = ""
    unpaced: str = ""

    @property
    def best(self) -> VariantJudgement | None:
        """The correct variant with the largest lower bound."""
        correct = [item for item in self.variants if item.outcome is Outcome.CORRECT]
        return max(correct, key=lambda item: item.speedup.low if item.speedup else 0.0, default=None)


class Judge:
    """Judges candidates for one operator on one device. Use as an async context; its executors stay warm inside."""

    def __init__(
        self,
        operator: Operator,
        device: Device,
        *,
        card: int = 0,
        data: Path | None = None,
        admit: bool = False,
        command: Sequence[str] = COMMAND,
    ) -> None:
        """Prepare without starting an executor.

        Args:
            operator: Operator that candidates are judged for.
            device: Device to judge on.
            card: Number of this machine's card, on devices that measure.
            admit: True to judge although mutation testing fails the operator; judgements say so.
            data: Folder for figures of baselines and raw samples; None for the worker's own.
            command: Command that starts an executor, without its options.
        """
        self._operator = operator
        self._device = device
        self._recording = device if device.kind == "recorded" else None
        self._card = card
        self._data = data
        self._admit = admit
        self._admitted = self._unpaced = ""
        self._command = command
        self._shapes = all_shapes(operator, secrets.randbits(31))
        self._graphs: tuple[Graph, ...] = ()
        self._baseline_us: dict[str, float] = {}
        self._pacer: Bundle | None = None
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> "Judge":
        executors = ("trace", "measure") if self._device.measures else ("both",)
        opened = [await self._resources.enter_async_context(self._executor(kind)) for kind in executors]
        self._tracer, self._measurer = opened[0], opened[-1]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def judge(self, source: str) -> Judgement:
        """Judge one candidate.

        Raises:
            InvalidInput: If the operator cannot be judged: its reference does not export, its checks are weak.
            Unavailable: If an executor failed.
        """
        traced = await self._trace(source)
        stages_s = dict(traced.stages_s)
        if not any(variant.bundle for variant in traced.variants):
            return self._untraceable(traced, stages_s)
        await self._prepare()
        judged = [await self._measure(source, variant, stages_s) for variant in traced.variants]
        lead = min(judged, key=lambda item: item.outcome is not Outcome.CORRECT)
        marks = {"admitted": self._admitted, "unpaced": self._unpaced}
        return Judgement(self._device, lead.outcome, lead.reason, lead.line, tuple(judged), stages_s, **marks)

    def _untraceable(self, traced: TraceReport, stages_s: Mapping[str, float]) -> Judgement:
        variants = tuple(_stopped(variant) for variant in traced.variants)
        lead: TraceReport | VariantJudgement = variants[0] if variants else traced
        return Judgement(self._device, lead.outcome, lead.reason, lead.line, variants, stages_s)

    async def _prepare(self) -> None:
        """Export the reference and time the first correct seed, once; a refused seed is a verdict on the seed alone."""
        if self._graphs:
            return
        exported = await self._tracer.run(self._trace_job(None), TraceReport)
        if not exported.graphs:
            raise InvalidInput(f"the reference does not export: {exported.reason}", "reference")
        if exported.gate is not None and exported.gate.verdict == "failed":
            if not self._admit:
                way_on = "`--admit` judges all the same, and marks the verdict"
                raise InvalidInput(f"the operator is not admitted: {exported.gate.reason}. {way_on}", "operator")
            self._admitted = exported.gate.reason
        self._graphs = exported.graphs
        refused = []
        for seed in self._operator.seeds:
            traced = await self._trace(seed)
            found: Report | TraceReport = traced
            for variant in traced.variants:
                if variant.bundle is None:
                    continue
                found = await self._measurer.run(self._measure_job(seed, variant), Report)
                if found.outcome is Outcome.CORRECT:
                    self._baseline_us = times_us(found)
                    self._pacer = variant.bundle.reduced() if self._device.measures else None
                    return
            refused.append(f"{found.outcome}: {found.reason}")
        if refused:
            self._unpaced = f"no seed kernel is correct, so times are relative to nothing ({'; '.join(refused)})"

    def _executor(self, kind: str) -> LocalExecutor:
        device = None if kind == "trace" else self._device
        return LocalExecutor(kind, device=device, card=self._card, data=self._data, command=self._command)

    async def _trace(self, source: str) -> TraceReport:
        return await self._tracer.run(self._trace_job(source), TraceReport)

    def _trace_job(self, source: str | None) -> TraceJob:
        return TraceJob(
            id=HERE,
            search=HERE,
            candidate=HERE if source is not None else None,
            source=source,
            operator=self._operator,
            shapes=self._shapes,
            target=self._device.target,
            device=self._recording,
            deadline_s=seed_trace_s(source),
        )

    def _measure_job(self, source: str, variant: TracedVariant) -> MeasureJob:
        if variant.bundle is None:
            raise ServiceError("a variant without a bundle cannot be measured")
        job = MeasureJob(
            id=HERE,
            search=HERE,
            candidate=HERE,
            variant=variant.index,
            bundle=variant.bundle,
            operator=self._operator,
            graphs=self._graphs,
            device=self._device,
            source=source if self._device.kind == "model" else None,
            pacer=self._pacer,
            related=self._operator.has_baselines,
            waits_for_baselines=self._operator.has_baselines,
        )
        return job.model_copy(update={"deadline_s": MEASURED_DEADLINE_S}) if self._device.measures else job

    async def _measure(self, source: str, variant: TracedVariant, stages_s: dict[str, float]) -> VariantJudgement:
        if variant.bundle is None:
            return _stopped(variant)
        report = await self._measurer.run(self._measure_job(source, variant), Report)
        for stage, seconds in report.stages_s.items():
            stages_s[stage] = stages_s.get(stage, 0.0) + seconds
        first = next(i for i, shape in enumerate(self._shapes) if shape.role is ShapeRole.BENCHMARK)
        return VariantJudgement(
            index=variant.index,
            configuration=variant.bundle.configuration,
            outcome=report.outcome,
            reason=report.reason,
            line=report.line,
            plan=report.bundle,
            speedup=self._speedup(report),
            coordinates=coordinates(variant.readings[first].model_dump(mode="json")),
            report=report,
        )

    def _speedup(self, report: Report) -> Ratio | None:
        if self._device.measures and not self._operator.has_baselines:
            return over_pacer(report, weights_of(self._shapes))
        return gain(report, self._baseline_us, weights_of(self._shapes))


def _stopped(variant: TracedVariant) -> VariantJudgement:
    configuration = variant.bundle.configuration if variant.bundle else {}
    return VariantJudgement(variant.index, configuration, variant.outcome, variant.reason, variant.line)
