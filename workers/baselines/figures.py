"""Figures from samples: medians with their intervals, and ratios to the pacer."""

from collections.abc import Mapping, Sequence
from math import exp, log, sqrt
from statistics import NormalDist, median

from workers.baselines.messages import PACER, Baseline, BaselineFigure
from workers.timing import CONFIDENCE, estimate, student_quantile


def summarise(shape: str, samples_us: Mapping[str, Sequence[float]], skipped: Mapping[str, str]) -> Baseline:
    """Compute the figures of one shape.

    Args:
        shape: Key of the shape.
        samples_us: Microseconds per call by contender, including the pacer; equal positions are of one round.
        skipped: Reasons for contenders that were not timed.

    Raises:
        ValueError: If there are fewer rounds than an interval needs.
    """
    pacer = samples_us[PACER]
    figures = {name: _relate(times, pacer) for name, times in samples_us.items() if name != PACER}
    return Baseline(
        shape=shape,
        pacer_us=median(pacer),
        pacer_half_width=median_half_width(pacer),
        figures=figures,
        pairs=len(pacer),
        skipped=dict(skipped),
    )


def are_tight(samples_us: Mapping[str, Sequence[float]], half_width: float) -> bool:
    """Return True if every ratio to the pacer has an interval of at most that relative half-width."""
    figures = summarise("", samples_us, {}).figures.values()
    return all(figure.half_width <= half_width for figure in figures)


def median_half_width(samples: Sequence[float]) -> float:
    """Return half of the 95 % interval of a median, over the median, from order statistics, for any distribution.

    Below six samples the interval is the whole range, which then covers less (David and Nagaraja, 7.1).
    """
    ordered = sorted(samples)
    reach = NormalDist().inv_cdf((1 + CONFIDENCE) / 2) * sqrt(len(ordered)) / 2
    low = max(0, int((len(ordered) - 1) / 2 - reach))
    return (ordered[len(ordered) - 1 - low] - ordered[low]) / 2 / median(ordered)


def _relate(times: Sequence[float], pacer: Sequence[float]) -> BaselineFigure:
    ratio = estimate([log(mine / its) for mine, its in zip(times, pacer, strict=True)])
    return BaselineFigure(
        time_us=median(times),
        time_half_width=median_half_width(times),
        over_pacer=exp(ratio.mean),
        half_width=student_quantile((1 + CONFIDENCE) / 2, ratio.freedom) * ratio.error,
    )
