"""Speedups of reports: over the seed kernel where times are predicted, over the pacer and the baselines where measured.

On a device that measures, every report has the candidate's speedup over the pacer, which is the same kernel for a whole
search. The pacer's own speedup over the best baseline is one factor for all of them. Baselines are measured beside
other jobs, so the factor may come after many verdicts.
"""

import math
from collections.abc import Iterable, Mapping

from archive.records import MeasuredBaselines, SearchRecord
from workers.protocol import Outcome, Ratio, Report, Shape, ShapeRole


def times_us(report: Report) -> dict[str, float]:
    """Return the median time of each benchmark shape in a report, microseconds by shape key."""
    return {result.shape: result.mid_us for result in report.shapes if result.mid_us is not None}


def speedup(report: Report, baseline_us: Mapping[str, float], weights: Mapping[str, float]) -> Ratio | None:
    """Compute the speedup on a device that does not measure: the weighted geometric mean over the benchmark shapes.

    The bounds combine the bounds of all shapes. Returns None if a benchmark shape has no time.

    Args:
        report: Report on a correct variant.
        baseline_us: Best baseline time by shape key, microseconds.
        weights: Weight by shape key; its keys are the benchmark shapes.
    """
    results = {result.shape: result for result in report.shapes}
    low = mid = high = 0.0
    for shape, weight in weights.items():
        result, base = results.get(shape), baseline_us.get(shape)
        if base is None or result is None or not (result.mid_us and result.low_us and result.high_us):
            return None
        low += weight * math.log(base / result.high_us)
        mid += weight * math.log(base / result.mid_us)
        high += weight * math.log(base / result.low_us)
    total = sum(weights.values())
    return Ratio(low=math.exp(low / total), mid=math.exp(mid / total), high=math.exp(high / total))


def gain(report: Report, baseline_us: Mapping[str, float], weights: Mapping[str, float]) -> Ratio | None:
    """Return the speedup of a report; None if the variant is not correct or the speedup is unknown.

    Devices that measure report it themselves, over the best baseline of each shape; elsewhere it is computed here.
    """
    if report.outcome is not Outcome.CORRECT:
        return None
    return report.speedup if report.device.measures else speedup(report, baseline_us, weights)


def over_pacer(report: Report, weights: Mapping[str, float]) -> Ratio | None:
    """Return a measured report's speedup over the pacer; None if the variant is not correct or the speedup is unknown.

    Reports of release 0.1.0 have it over the best baseline alone; it is computed from the times beside it.

    Args:
        report: Report of a device that measures.
        weights: Weight by shape key; its keys are the benchmark shapes.
    """
    if report.outcome is not Outcome.CORRECT or report.over_pacer is not None or report.speedup is None:
        return report.over_pacer if report.outcome is Outcome.CORRECT else None
    best = {shape.shape: min(shape.baselines_us.values()) for shape in report.shapes if shape.baselines_us}
    worth = sum(
        weights[shape.shape] * math.log(best[shape.shape] / (shape.pacer_us or 1.0))
        for shape in report.shapes
        if shape.shape in best and shape.shape in weights
    )
    by = math.exp(-worth / sum(weights.values()))
    return scaled(report.speedup, Ratio(low=by, mid=by, high=by))


def scaled(ratio: Ratio, by: Ratio | MeasuredBaselines) -> Ratio:
    """Multiply a speedup by another, bound by bound."""
    return Ratio(low=ratio.low * by.low, mid=ratio.mid * by.mid, high=ratio.high * by.high)


def benchmark_weights(search: SearchRecord) -> dict[str, float]:
    """Return the weight of each benchmark shape of a search, by shape key."""
    return weights_of(Shape.model_validate(shape) for shape in search.shapes)


def weights_of(shapes: Iterable[Shape]) -> dict[str, float]:
    """Return the weight of each benchmark shape, by shape key."""
    return {shape.key: shape.weight for shape in shapes if shape.role is ShapeRole.BENCHMARK}


def baselines_of(report: Report) -> MeasuredBaselines | None:
    """Return the baselines that a measured report shows; None if it shows none."""
    if report.pacer_speedup is None:
        return None
    found = report.pacer_speedup
    return MeasuredBaselines(
        low=found.low,
        mid=found.mid,
        high=found.high,
        pacer_us={shape.shape: shape.pacer_us for shape in report.shapes if shape.pacer_us is not None},
        times_us={shape.shape: shape.baselines_us for shape in report.shapes},
        copy_us={shape.shape: shape.copy_us for shape in report.shapes if shape.copy_us is not None},
    )


def completed(report: Report, search: SearchRecord) -> Report:
    """Add the baselines of its search to a measured report that came before them; any other report stays as it is."""
    baselines = search.baselines.get(report.device.name)
    if baselines is None or baselines.reason or report.over_pacer is None or report.speedup is not None:
        return report
    shapes = []
    for shape in report.shapes:
        pacer_us = baselines.pacer_us.get(shape.shape)
        if pacer_us is None or not shape.pacer_us:
            return report
        # Times are those beside the baselines, as in every report that has some.
        by = pacer_us / shape.pacer_us
        times = {name: getattr(shape, name) for name in ("low_us", "mid_us", "high_us")}
        told = {name: time if time is None else time * by for name, time in times.items()}
        beside = {"baselines_us": dict(baselines.times_us.get(shape.shape, {}))}
        update = {**told, **beside, "pacer_us": pacer_us, "copy_us": baselines.copy_us.get(shape.shape)}
        shapes.append(shape.model_copy(update=update))
    worth = Ratio(low=baselines.low, mid=baselines.mid, high=baselines.high)
    speedup = scaled(report.over_pacer, worth)
    return report.model_copy(update={"shapes": tuple(shapes), "pacer_speedup": worth, "speedup": speedup})
