"""Rank correlation (Spearman) of predicted times with times measured on a card.

Kernels and times are drawn from what was recorded on a card, or are those honest kernels that `benchmarks.card` had
judged on one. Every kernel is traced and predicted here, without a card.

    python -m benchmarks.correlation --landscape operators/landscapes/h200 --operators rmsnorm,gelu --count 40
    python -m benchmarks.correlation --judged benchmarks/results/card_judgements_honest.json

`predicted_us` is what the `model` device reports, with the traffic that its interpreter samples. `readings_us` is the
same formula over the readings of the trace alone.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.figures import FigureRows, Row
from service.emitters.tune import write
from tests.gpu.benches import answers, measuring
from tests.gpu.honest import Honest, honest_kernels
from tests.gpu.judging import Traces, measure_job, trace_all
from workers.landscape import read
from workers.predict import predict_us
from workers.protocol import (
    Answer,
    Device,
    Report,
    ShapeResult,
    ShapeRole,
    TracedVariant,
)
from workers.targets import TARGETS

OPERATORS = "rmsnorm,softmax,layernorm,swiglu"
FEWEST = 5
"""Points below which no correlation is given."""


def predictions(kernels: Sequence[Honest], traces: Traces, device: Device) -> Iterator[tuple[str, Answer]]:
    """Predict the time of each kernel's first variant on the `model` device, several at once."""
    model = Device.parse(f"model:{device.target}")
    jobs = {}
    for kernel in kernels:
        variant = next(traces.variants(kernel.name), None)
        if variant is not None and kernel.operator in traces.graphs:
            jobs[kernel.name] = measure_job(kernel, variant, traces, model)
    return answers(jobs, measuring(model))


def timed_rows(
    kernel: Honest, variant: TracedVariant, predicted: Answer | None, shapes: Sequence[ShapeResult]
) -> list[Row]:
    """One row a benchmark shape that was timed."""
    known = {item.shape: item for item in (predicted.shapes if isinstance(predicted, Report) else ())}
    start = {**_start(kernel), "outcome": "correct"}
    return [{**start, **_times(item, known.get(item.shape), variant)} for item in shapes]


def _start(kernel: Honest) -> Row:
    return {"operator": kernel.operator, "kernel": kernel.name}


def _times(measured: ShapeResult, predicted: ShapeResult | None, variant: TracedVariant) -> Row:
    return {
        "shape": measured.shape,
        "measured_us": measured.mid_us,
        "measured_low_us": measured.low_us,
        "measured_high_us": measured.high_us,
        "predicted_us": None if predicted is None else predicted.mid_us,
        "readings_us": from_readings(variant).get(measured.shape),
    }


def from_readings(variant: TracedVariant) -> dict[str, float]:
    """Predicted microseconds by benchmark shape, out of what the trace alone tells."""
    if variant.bundle is None:
        return {}
    target = TARGETS[variant.bundle.target]
    pairs = zip(variant.bundle.plans, variant.readings, strict=True)
    return {
        plan.shape.key: predict_us(readings, target)
        for plan, readings in pairs
        if plan.shape.role is ShapeRole.BENCHMARK
    }


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's correlation of ranks, ties at their mean rank; None below `FEWEST` points or without any spread."""
    if len(first) < FEWEST:
        return None
    one, two = _ranks(first), _ranks(second)
    middle = (len(first) - 1) / 2
    spread = [sum((rank - middle) ** 2 for rank in ranks) for ranks in (one, two)]
    if 0.0 in spread:
        return None
    together = sum((a - middle) * (b - middle) for a, b in zip(one, two, strict=True))
    return together / (spread[0] * spread[1]) ** 0.5


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    start = 0
    while start < len(order):
        end = start
        while end + 1 < len(order) and values[order[end + 1]] == values[order[start]]:
            end += 1
        for place in range(start, end + 1):
            ranks[order[place]] = (start + end) / 2
        start = end + 1
    return ranks


def summary(rows: Sequence[Mapping[str, Any]]) -> list[Row]:
    """Correlations: pooled, by operator, and by operator and shape, which is what a search ranks by."""
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        if row.get("measured_us"):
            for group in (("all", "all"), (row["operator"], "all"), (row["operator"], row["shape"])):
                groups[group].append(row)
    return [_summary_of(operator, shape, group) for (operator, shape), group in groups.items()]


def _summary_of(operator: str, shape: str, rows: Sequence[Mapping[str, Any]]) -> Row:
    found: Row = {"operator": operator, "shape": shape, "bundles": len({row["kernel"] for row in rows})}
    for name in ("predicted_us", "readings_us"):
        known = [row for row in rows if row[name] is not None]
        found[f"spearman_{name.removesuffix('_us')}"] = spearman(
            [row[name] for row in known], [row["measured_us"] for row in known]
        )
        errors = sorted(abs(row[name] / row["measured_us"] - 1) for row in known)
        found[f"median_error_{name.removesuffix('_us')}"] = errors[len(errors) // 2] if errors else None
    return found


def recorded(
    folder: Path, names: Sequence[str], count: int, target: str = "sm_90"
) -> dict[Honest, Sequence[ShapeResult]]:
    """Correct kernels drawn from landscapes, with their times at the benchmark shapes."""
    found = {}
    for name in names:
        landscape = read(folder / f"{name}.jsonl.gz")
        firsts = {item.variants[0].bundle: item for item in landscape.sources.values() if item.variants}
        bundles = {key: item for key, item in landscape.bundles.items() if item.times and key in firsts}
        for key in random.Random(f"sample of {name}").sample(sorted(bundles), min(count, len(bundles))):
            source = firsts[key]
            text = write(landscape.templates[source.template].source, target, source.parameters)
            found[Honest(f"{name}/{key[:12]}", name, text)] = [
                ShapeResult(shape=shape, low_us=timed.low * us, mid_us=timed.mid * us, high_us=timed.high * us)
                for shape, timed in bundles[key].times.items()
                for us in [landscape.pacer_us[shape]]
            ]
    return found


def judged(path: Path, names: Sequence[str]) -> dict[Honest, Sequence[ShapeResult]]:
    """Honest kernels of operators that were judged on a card, with their times; of several variants the first."""
    kernels, times = honest_kernels(), ("shape", "low_us", "mid_us", "high_us")
    return {
        kernels[row["kernel"]]: [ShapeResult(**{name: item[name] for name in times}) for item in row["shapes"]]
        for row in json.loads(path.read_text())["rows"]
        if row["outcome"] == "correct" and row["variant"] == 0 and row["operator"] in names and row["kernel"] in kernels
    }


def correlate(figures: FigureRows, device: Device, kernels: Mapping[Honest, Sequence[ShapeResult]]) -> None:
    """Trace and predict kernels whose times are known."""
    traces = trace_all(kernels, device.target)
    predicted = dict(predictions(list(kernels), traces, device))
    for kernel, times in kernels.items():
        if kernel.name in predicted:
            variant = next(traces.variants(kernel.name))
            for row in timed_rows(kernel, variant, predicted[kernel.name], times):
                figures.add(row, f"{kernel.name} {row['predicted_us']} {row['measured_us']:.1f}")
    figures.conclude(correlations=summary(figures.rows), not_traced=len(kernels) - len(predicted))


def main() -> None:
    """Write `<out>/correlation_recorded.json` or `<out>/correlation_judged.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--operators", default=OPERATORS, help="names with commas")
    options.add_argument("--count", type=int, default=70, help="kernels per operator that are drawn from recordings")
    source = options.add_mutually_exclusive_group(required=True)
    source.add_argument("--landscape", type=Path, help="folder of recordings to draw kernels and times from")
    source.add_argument("--judged", type=Path, help="judgements to take honest kernels and times from")
    chosen = options.parse_args()
    names = chosen.operators.split(",")
    if chosen.landscape is not None:
        kernels = recorded(chosen.landscape, names, chosen.count)
        correlate(FigureRows(chosen.out, "correlation_recorded"), Device.parse(chosen.landscape.name), kernels)
        return
    correlate(FigureRows(chosen.out, "correlation_judged"), Device.parse("h200"), judged(chosen.judged, names))


if __name__ == "__main__":
    main()
