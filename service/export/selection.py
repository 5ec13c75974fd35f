"""Choice of the elite that serves each shape, by the times in the archive."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.protocol import Report


@dataclass(frozen=True)
class ExportCandidate:
    """Elite that may be exported.

    Attributes:
        candidate: Id of its candidate.
        variant: Index of its variant.
        objective: Objective in the archive.
        report: Report that the objective comes from.
    """

    candidate: str
    variant: int
    objective: float
    report: Report


@dataclass(frozen=True)
class _Time:
    """Time at one shape in a unit that all elites share: the pacer's time if measured, else microseconds."""

    low: float
    mid: float
    high: float


def choose(contenders: Sequence[ExportCandidate], shapes: Sequence[str]) -> Mapping[str, ExportCandidate]:
    """Choose the elite that serves each shape.

    The best elite serves a shape unless another's time interval there lies wholly below its own: a difference that may
    be noise is not worth a second kernel. Shapes without times go to the best elite.
    """
    best = max(contenders, key=lambda each: each.objective)
    return {shape: _fastest(contenders, best, shape) for shape in shapes}


def _fastest(contenders: Sequence[ExportCandidate], best: ExportCandidate, shape: str) -> ExportCandidate:
    times = {at: time for at, each in enumerate(contenders) if (time := _time(each.report, shape))}
    own = _time(best.report, shape)
    faster = {at: time.mid for at, time in times.items() if own is not None and time.high < own.low}
    return contenders[min(faster, key=faster.__getitem__)] if faster else best


def _time(report: Report, shape: str) -> _Time | None:
    result = next((each for each in report.shapes if each.shape == shape), None)
    if result is None or result.mid_us is None:
        return None
    unit = result.pacer_us or 1.0
    low_us = result.mid_us if result.low_us is None else result.low_us
    high_us = result.mid_us if result.high_us is None else result.high_us
    return _Time(low_us / unit, result.mid_us / unit, high_us / unit)
