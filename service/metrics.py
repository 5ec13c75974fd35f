"""Prometheus counters and histograms of this process. Gauges are read at the scrape, elsewhere.

Labels come from the service's own tables only: text from a candidate, a model or a remote worker never makes a series.
"""

import math

from prometheus_client import CollectorRegistry, Counter, Histogram

from service.events import CandidateJudged, ElitePromoted, Event
from workers.protocol import AnyReport, Stage, TraceReport

STAGE_BUCKETS_S = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
"""Upper bounds, half a decade apart: from a check on a card to a compilation that meets its deadline."""
STAGES = frozenset((*(stage.value for stage in Stage), "jail"))
"""Stages that workers report the seconds of; other names are not counted."""
LONGEST_STAGE_S = 3600.0
"""Maximum that one stage is counted with; no real stage takes an hour."""


class Metrics:
    """Counters and histograms of a process. Scrape them through `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._reports = Counter("reef_reports", "Reports applied.", ["kind", "outcome"], registry=self.registry)
        self._stages = Histogram(
            "reef_stage_seconds",
            "Seconds per stage of a job, as its worker reported.",
            ["kind", "stage"],
            buckets=STAGE_BUCKETS_S,
            registry=self.registry,
        )
        self._busy = Counter(
            "reef_device_busy_seconds",
            "Seconds that workers judged on a device; its rate divided by the number of cards is their busy share.",
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
        """Count an event that this coordinator published."""
        match event:
            case CandidateJudged():
                self._judged.labels(event.emitter, event.outcome).inc()
            case ElitePromoted():
                self._promotions.labels(event.device, event.placement).inc()


def _believable(seconds: float) -> float:
    return 0.0 if math.isnan(seconds) else min(max(seconds, 0.0), LONGEST_STAGE_S)


METRICS = Metrics()
"""Metrics of this process, as scrapes see them."""
