"""Choice of the elites of a package: by the times in the archive, and by times at shapes that no search judged."""

import math
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TypeVar

from workers.protocol import Report

CLEARLY = 1.05
"""Ratio of times from which a kernel counts as faster at a shape: times of single jobs differ by less."""
LEAST_GAIN = 0.01
"""Least relative time, over all timed shapes, that one more elite must save: it has kernels to compile and judge."""
Name = TypeVar("Name", bound=Hashable)


@dataclass(frozen=True)
class ExportCandidate:
    """Elite that may be exported.

    Attributes:
        candidate: Id of its candidate.
        variant: Index of its variant.
        objective: Objective in the archive.
        report: Report that the objective comes from.
        source: Its source.
    """

    candidate: str
    variant: int
    objective: float
    report: Report
    source: str = ""


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


def mean_time(report: Report) -> float:
    """Return the geometric mean of a report's times, in the unit that all elites share; infinity without times."""
    times = [time.mid for each in report.shapes if (time := _time(report, each.shape))]
    return math.exp(sum(map(math.log, times)) / len(times)) if times else math.inf


def unlike(
    contenders: Sequence[ExportCandidate], chosen: Sequence[ExportCandidate], most: int
) -> list[ExportCandidate]:
    """Choose further elites whose sources have least in common with those of the chosen ones and each other.

    Times at the shapes of a search say little about others, so another program is worth a trial there even if it is
    slower at these. Of two that are as unlike, the faster one is taken.
    """
    best = max((each.objective for each in contenders), default=1.0)
    words = {each.source: _pairs(each.source) for each in (*contenders, *chosen)}
    distances = {
        at: min((_distance(words[each.source], words[other.source]) for other in chosen), default=1.0)
        for at, each in enumerate(contenders)
    }
    found: list[ExportCandidate] = []
    while distances and len(found) < most:
        at = max(distances, key=lambda at: distances[at] * contenders[at].objective / best)
        if distances.pop(at) == 0.0:
            break
        found.append(contenders[at])
        for other, distance in distances.items():
            distances[other] = min(distance, _distance(words[contenders[other].source], words[found[-1].source]))
    return found


def additions(known: Mapping[str, float], offered: Mapping[Name, Mapping[str, float]], most: int) -> list[Name]:
    """Choose the elites that save most time beside what is there.

    Args:
        known: Least time of what is there at each timed shape.
        offered: Times of each elite at those shapes that it can serve.
        most: Maximum number of elites to choose.
    """
    best, found = dict(known), list[Name]()
    while len(found) < most and best:
        saved = {
            name: sum(_saved(time, times.get(shape)) for shape, time in best.items()) / len(best)
            for name, times in offered.items()
            if name not in found
        }
        name = max(saved, key=saved.__getitem__, default=None)
        if name is None or saved[name] < LEAST_GAIN:
            break
        found.append(name)
        best = {shape: min(time, offered[name].get(shape, time)) for shape, time in best.items()}
    return found


def _saved(time: float, other: float | None) -> float:
    """Return the logarithm of the ratio of two times if the other is clearly less; else 0."""
    return math.log(time / other) if other is not None and time > CLEARLY * other else 0.0


def _pairs(source: str) -> frozenset[tuple[str, str]]:
    """Return all pairs of words and signs that follow each other in a source."""
    return frozenset(pairwise(re.findall(r"\w+|[^\w\s]", source)))


def _distance(one: frozenset[tuple[str, str]], other: frozenset[tuple[str, str]]) -> float:
    """Return the share of pairs that are in one source only."""
    return len(one ^ other) / max(1, len(one | other))


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
