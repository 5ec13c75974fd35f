"""Whether two answers to one job agree: a host's with a trusted worker's."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from service.evaluation.jobs import is_final
from service.evaluation.promotion import times_us
from workers.protocol import AnyReport, Outcome, TraceReport

SPEED_TOLERANCE = 1.25
"""Measured speedups of one kernel on two cards of one class differ by less than this factor: cards of a class differ by
a few percent in clocks, and a lie that is to win anything is larger."""
PREDICTION_TOLERANCE = 1.01
"""Predicted times are computed, so that they differ by rounding at most."""


class TrustedResult(BaseModel):
    """What a trusted worker said of a job, as far as another one must say the same.

    Attributes:
        worker: Who said so.
        kind: Kind of the report.
        correct: Whether the candidate, or its variant, was correct.
        bundles: Of a trace: identities of the bundles by variant, empty where there was none.
        speedup: Of a measured variant: the middle of its speedup, None if it has none.
        times_us: Of a predicted variant: its times, microseconds by shape.
    """

    model_config = ConfigDict(frozen=True)

    worker: str
    kind: Literal["trace", "measure", "confirm", "final"]
    correct: bool
    bundles: tuple[str, ...] = ()
    speedup: float | None = None
    times_us: dict[str, float] = {}

    @classmethod
    def of(cls, report: AnyReport) -> Self | None:
        """What a report says; None where our machine failed, which says nothing.

        None also of finalists: only trusted workers examine them, on shapes that are drawn anew each time.
        """
        if report.outcome is Outcome.WORKER_LOST or is_final(report.job):
            return None
        correct = report.outcome is Outcome.CORRECT
        if isinstance(report, TraceReport):
            variants = sorted(report.variants, key=lambda variant: variant.index)
            bundles = tuple(variant.bundle.identity if variant.bundle else "" for variant in variants)
            return cls(worker=report.worker, kind="trace", correct=correct, bundles=bundles)
        return cls(
            worker=report.worker,
            kind=report.kind,
            correct=correct,
            speedup=report.speedup.mid if report.speedup else None,
            times_us={} if report.device.measures else times_us(report),
        )

    def differs(self, other: "TrustedResult") -> str:
        """What another answer says differently, for a person; empty if they agree."""
        if self.correct != other.correct:
            return f"correct is {self.correct} for one and {other.correct} for the other"
        if self.bundles != other.bundles:
            return "the traces are not the same"
        if not self.correct:
            return ""
        if self.speedup and other.speedup and not _near(self.speedup, other.speedup, SPEED_TOLERANCE):
            return f"the speedups are {self.speedup:.3g} and {other.speedup:.3g}"
        if self.times_us.keys() != other.times_us.keys():
            return "the times are of other shapes"
        near = (_near(time, other.times_us[shape], PREDICTION_TOLERANCE) for shape, time in self.times_us.items())
        return "" if all(near) else "the predicted times are not the same"


def _near(one: float, other: float, factor: float) -> bool:
    return one <= other * factor and other <= one * factor
