"""Choosing: which elite serves which shape, by what the archive knows of their times."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workers.protocol import Report


@dataclass(frozen=True)
class ExportCandidate:
    """An elite that may be exported.

    Attributes:
        candidate: Its candidate's id.
        variant: Which of its variants.
        objective: What the archive compares.
        report: What that rests on.
    """

    candidate: str
    variant: int
    objective: float
    report: Report


@dataclass(frozen=True)
class _Time:
    """A time at one shape, in units that contenders share: of the pacer's where one ran beside them."""

    low: float
    mid: float
    high: float


def choose(contenders: Sequence[ExportCandidate], shapes: Sequence[str]) -> Mapping[str, ExportCandidate]:
    """Say who serves which shape.

    The best elite serves every shape, unless another one's time at a benchmark shape lies below it with its whole
    interval: differences that may be noise are not worth a second kernel. Shapes that nobody timed are the best one's.

    Args:
        contenders: At least one.
        shapes: Keys of all shapes that plans are traced for.
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
