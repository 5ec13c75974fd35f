"""Rank correlation (Spearman) of predicted times with times measured on a card.

Kernels are made from the catalogue's seeds by the emitters' own moves, with chance of a fixed seed. Every one is
traced, judged on the `model` device, which predicts its times, and measured on the card.

    python -m benchmarks.correlation --out results --operators rmsnorm,softmax,layernorm,swiglu --count 70
    python -m benchmarks.correlation --landscape operators/landscapes/h200 --operators rmsnorm,gelu --count 40
    python -m benchmarks.correlation --judged benchmarks/results/card_judgements_honest.json

The others need no card: kernels and times are drawn from what was recorded on one, or are those honest kernels that
were judged on one, and predicted here.
`predicted_us` is what the `model` device reports, with the traffic that its interpreter samples. `readings_us` is the
same formula over the readings of the trace alone.
"""

import argparse
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import Any

from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of
from service.emitters.rules import RULES
from service.emitters.tune import write
from service.operators.sources import digest
from tests.gpu.benches import Served, answers, measuring
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest, honest_kernels, tunings
from tests.gpu.judging import Traces, measure_job, trace_all
from workers.landscape import read
from workers.predict import predict_us
from workers.protocol import (
    MEASURED_DEADLINE_S,
    Answer,
    CardShare,
    Device,
    Report,
    ShapeResult,
    ShapeRole,
    TracedVariant,
)
from workers.targets import TARGETS

OPERATORS = "rmsnorm,softmax,layernorm,swiglu"
RECENT = 20
"""Kernels of a population that the next one may be made from: walks go away from the seed."""
ATTEMPTS = 8
"""Moves tried for each kernel wanted."""
FEWEST = 5
"""Points below which no correlation is given."""


def population(name: str, count: int, target: str = "sm_90") -> Iterator[Honest]:
    """Kernels of an operator that compute the same in different ways: random walks from its seed, no two alike."""
    operator, rng = operators()[name], random.Random(f"population {name}")
    pool = [operator.seeds[0]]
    seen = {digest(pool[0])}
    yield Honest(f"{name}/0", name, pool[0])
    for attempt in range(ATTEMPTS * count):
        if len(pool) >= count:
            return
        parent = rng.choice([pool[0], *pool[-RECENT:]])
        if rng.random() < 0.5:
            source = RULES[rng.choice(list(RULES))].rewrite(parent, rng)
        else:
            source = next(iter(tunings(operator, parent, 1, f"{name} {attempt}")), None)
        if source is not None and digest(source) not in seen:
            seen.add(digest(source))
            pool.append(source)
            yield Honest(f"{name}/{len(pool) - 1}", name, source)


def predictions(
    kernels: Sequence[Honest], traces: Traces, device: Device, processes: int | None
) -> Iterator[tuple[str, Answer]]:
    """Predict the time of each kernel's first variant on the `model` device, several at once."""
    model = Device.parse(f"model:{device.target}")
    jobs = {}
    for kernel in kernels:
        variant = next(traces.variants(kernel.name), None)
        if variant is not None and kernel.operator in traces.graphs:
            jobs[kernel.name] = measure_job(kernel, variant, traces, model)
    return answers(jobs, measuring(model), processes)


def measured_rows(kernel: Honest, variant: TracedVariant, predicted: Answer | None, answer: Answer) -> list[Row]:
    """One row a benchmark shape, or one that says why there is no time."""
    if not isinstance(answer, Report) or not answer.shapes:
        reason = answer.reason if isinstance(answer, Report) else getattr(answer, "error", answer.kind)
        outcome = answer.outcome.value if isinstance(answer, Report) else "failure"
        return [{**_start(kernel), "outcome": outcome, "reason": reason}]
    return timed_rows(kernel, variant, predicted, answer.shapes)


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


def correlate(
    figures: FigureRows,
    device: Device,
    kernels: Sequence[Honest],
    command: Sequence[str],
    limit_s: float,
    processes: int | None,
) -> None:
    """Trace, predict and measure kernels, and write rows as they come.

    Args:
        figures: Where rows go.
        device: What to measure on.
        kernels: What to measure, in that order, while there is time.
        command: What starts the bench that measures.
        limit_s: Seconds of measuring.
        processes: Traces at once; None for one a core.
    """
    traces = trace_all(kernels, device.target, processes)
    print(f"traced {len(traces.reports)} of {len(kernels)}", flush=True)
    predicted = dict(predictions(kernels, traces, device, processes))
    print(f"predicted {len(predicted)}", flush=True)
    allowance, tried = TimeAllowance(limit_s), 0
    with Served(command, MEASURED_DEADLINE_S) as bench:
        for kernel in kernels:
            variant = next(traces.variants(kernel.name), None)
            if variant is None or not traces.knows(kernel.operator) or allowance.spent:
                continue
            tried += 1
            answer = bench.ask(measure_job(kernel, variant, traces, device))
            for row in measured_rows(kernel, variant, predicted.get(kernel.name), answer):
                figures.add(row, f"{kernel.name} {row['outcome']} {row.get('predicted_us')} {row.get('measured_us')}")
            figures.conclude(correlations=summary(figures.rows), not_tried=len(kernels) - tried)


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


def correlate_recorded(figures: FigureRows, device: Device, kernels: Mapping[Honest, Sequence[ShapeResult]]) -> None:
    """Trace and predict kernels whose times are known."""
    traces = trace_all(kernels, device.target)
    predicted = dict(predictions(list(kernels), traces, device, None))
    for kernel, times in kernels.items():
        if kernel.name in predicted:
            variant = next(traces.variants(kernel.name))
            for row in timed_rows(kernel, variant, predicted[kernel.name], times):
                figures.add(row, f"{kernel.name} {row['predicted_us']} {row['measured_us']:.1f}")
    figures.conclude(correlations=summary(figures.rows), not_traced=len(kernels) - len(predicted))


def populations(names: Sequence[str], count: int) -> list[Honest]:
    """Kernels of several operators, one of each in turn, so that an early end leaves all of them with as many."""
    by_operator = [list(population(name, count)) for name in names]
    return [kernel for row in zip_longest(*by_operator) for kernel in row if kernel is not None]


def main() -> None:
    """Write `<out>/correlation.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--operators", default=OPERATORS, help="names with commas")
    options.add_argument("--count", type=int, default=70, help="kernels an operator")
    options.add_argument("--limit-s", type=float, default=420.0, help="seconds of measuring")
    options.add_argument("--processes", type=int, help="traces at once; one a core if not given")
    options.add_argument("--landscape", type=Path, help="folder of recordings to draw kernels and times from")
    options.add_argument("--judged", type=Path, help="judgements to take honest kernels and times from")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--data", type=Path, help="where baselines are kept")
    options.add_argument(
        "--device", type=Device.parse, help="instead of the card's; `model:sm_90` tries the script out"
    )
    chosen = options.parse_args()
    names = chosen.operators.split(",")
    if chosen.landscape is not None:
        kernels = recorded(chosen.landscape, names, chosen.count)
        figures = FigureRows(chosen.out, "correlation_recorded", chosen.card)
        correlate_recorded(figures, Device.parse(chosen.landscape.name), kernels)
        return
    if chosen.judged is not None:
        figures = FigureRows(chosen.out, "correlation_judged", chosen.card)
        correlate_recorded(figures, Device.parse("h200"), judged(chosen.judged, names))
        return
    device = chosen.device or device_of(chosen.card)
    figures = FigureRows(chosen.out, "correlation", chosen.card)
    command = measuring(device, CardShare(chosen.card), chosen.data)
    made = populations(names, chosen.count)
    correlate(figures, device, made, command, chosen.limit_s, chosen.processes)


if __name__ == "__main__":
    main()
