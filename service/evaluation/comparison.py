"""Comparison of two reports on one job: a remote worker's with a trusted worker's."""

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict

from service.evaluation.jobs import is_final
from service.evaluation.speedups import times_us
from workers.protocol import AnyReport, Outcome, TraceReport

SPEED_TOLERANCE = 1.25
"""Factor within which measured speedups of one kernel on two cards of one class agree. Clocks of such cards differ by a
few percent; a false report that could win a cell differs by more."""
PREDICTION_TOLERANCE = 1.01
"""Factor within which predicted times agree: they are computed, so only rounding differs."""


class TrustedResult(BaseModel):
    """Reproducible part of a report: every honest worker must report the same.

    Attributes:
        worker: Id of the reporting worker.
        kind: Kind of the report.
        correct: True if the candidate, or its variant, was correct.
        bundles: Identities of a trace's bundles by variant; empty for a variant without one.
        speedup: Median speedup of a measured variant over the pacer; None if it has none.
        times_us: Times of a predicted variant, microseconds by shape.
        card: Facts of the card that measured, which all cards of its class share; empty if none did.
    """

    model_config = ConfigDict(frozen=True)

    worker: str
    kind: Literal["trace", "measure", "confirm", "final"]
    correct: bool
    bundles: tuple[str, ...] = ()
    speedup: float | None = None
    times_us: dict[str, float] = {}
    card: str = ""

    @classmethod
    def of(cls, report: AnyReport) -> Self | None:
        """Extract the reproducible part of a report; None if the machine failed.

        None for finalists as well: only trusted workers examine them, on new shapes each time.
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
            speedup=report.over_pacer.mid if report.over_pacer else None,
            times_us={} if report.device.measures else times_us(report),
            card=report.card.product if report.card else "",
        )

    def differs(self, other: "TrustedResult") -> str:
        """Describe the difference to another result for a person; empty if they agree."""
        if self.correct != other.correct:
            return f"correct is {self.correct} for one and {other.correct} for the other"
        if self.card and other.card and self.card != other.card:
            return f"the cards are two products: one has {self.card}, the other {other.card}"
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
