"""Counters and histograms of what this process has seen, for Prometheus. Gauges are read at the scrape, elsewhere.

Labels are names out of our own tables only: nothing that a candidate, a model or a stranger's worker wrote becomes a
series.
"""

import math

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.events import CandidateJudged, ElitePromoted, Event
from workers.protocol import AnyReport, Stage, TraceReport

STAGE_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Half a decade each: from a check on a card (milliseconds) to a compilation that runs into its deadline."""
STAGES = frozenset((*(stage.value for stage in Stage), "jail"))
"""Stages that workers tell the seconds of; other names are not counted."""
LONGEST_STAGE_S = 3600.0
"""No stage takes an hour: what says so counts as one."""


class Metrics:
    """What a process counts. Use `registry` to scrape it."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reports = Counter("reef_reports", "Reports applied.", ["kind", "outcome"], registry=self.registry)
        self._stages = Histogram(
            "reef_stage_seconds",
            "Seconds that a job spent in a stage, as its worker says.",
            ["kind", "stage"],
            buckets=STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._busy = Counter(
            "reef_device_busy_seconds",
            "Seconds that workers judged on a device; its rate over the number of cards is their busy share.",
            ["device"],
            registry=self.registry,
        )
        self._judged = Counter(
            "reef_candidates_judged", "Candidates with a verdict.", ["emitter", "outcome"], registry=self.registry
        )
        self._promotions = Counter("reef_promotions", "Elites placed.", ["device", "placement"], registry=self.registry)

    def reported(self, report: AnyReport) -> None:
        """Count a report that was applied."""
        self._reports.labels(report.kind, report.outcome.value).inc()
        stages_s = {name: _believable(seconds) for name, seconds in report.stages_s.items() if name in STAGES}
        for stage, seconds in stages_s.items():
            self._stages.labels(report.kind, stage).observe(seconds)
        if not isinstance(report, TraceReport):
            self._busy.labels(report.device.name).inc(sum(stages_s.values()))

    def published(self, event: Event) -> None:
        """Count an event of this coordinator's own."""
        match event:
            case CandidateJudged():
                self._judged.labels(event.emitter, event.outcome).inc()
            case ElitePromoted():
                self._promotions.labels(event.device, event.placement).inc()


def _believable(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_STAGE_S)


METRICS = Metrics()
"""Of this process, as scrapes see it."""
