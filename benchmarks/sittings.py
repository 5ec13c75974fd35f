"""Honest kernels judged in two sittings, equal kernels up for promotion: what can be repeated, and how fast it goes.

    python -m benchmarks.sittings --out results --count 50 --confirms 200

Each sitting has a bench of its own and its own order. In the second one the bench is told the job that comes next, as a
worker tells it: its pace is that of the measure side with plans ready. An equal kernel is the operator's seed, which
challenges itself; whoever is promoted that way is promoted by noise.
"""

import argparse
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.card import over_pacer
from benchmarks.correlation import spearman
from benchmarks.figures import Figures, device_of
from tests.gpu.benches import Served, measuring
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest, honest_kernels
from tests.gpu.judging import Traces, measure_job, trace_all
from workers.protocol import MEASURED_DEADLINE_S, Answer, ConfirmJob, Device, MeasureJob, Report

PROMOTED = 1.005
"""What the lower end of a challenger's ratio must exceed (docs/measuring.md)."""
Row = dict[str, Any]


def sit(jobs: Sequence[MeasureJob], command: Sequence[str], *, prepared: bool) -> tuple[dict[str, Row], float]:
    """Judge jobs one after the other in a bench of their own.

    Args:
        jobs: What to judge.
        command: What starts the bench.
        prepared: Whether the bench is told each next job beforehand.

    Returns:
        What came out, by job, and the seconds from the first job to the last answer.
    """
    found: dict[str, Row] = {}
    with Served(command, MEASURED_DEADLINE_S) as bench:
        begun = time.perf_counter()
        for index, job in enumerate(jobs):
            then = jobs[index + 1] if prepared and index + 1 < len(jobs) else None
            started = time.perf_counter()
            answer = bench.ask(job, then)
            found[job.id] = {**_said(answer), "wall_s": time.perf_counter() - started}
        return found, time.perf_counter() - begun


def compare(first: dict[str, Row], second: dict[str, Row], operator_of: dict[str, str]) -> Row:
    """Agreement of two sittings: verdicts, and the ranks of times by operator and shape."""
    same = sum(first[job]["outcome"] == second[job]["outcome"] for job in first)
    times: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for job, row in first.items():
        for shape, ratio in row["over_pacer"].items():
            if shape in second[job]["over_pacer"]:
                times[f"{operator_of[job]} {shape}"].append((ratio, second[job]["over_pacer"][shape]))
    ranks = {key: spearman(*zip(*pairs, strict=True)) for key, pairs in times.items()}
    known = [rank for rank in ranks.values() if rank is not None]
    moved = [abs(one / other - 1) for pairs in times.values() for one, other in pairs]
    return {
        "kernels": len(first),
        "same_verdict": same / len(first),
        "spearman": ranks,
        "median_spearman": statistics.median(known)
        if (known := [r for r in ranks.values() if r is not None])
        else None,
        "median_change": statistics.median(moved) if moved else None,
        "p90_change": sorted(moved)[int(0.9 * len(moved))] if moved else None,
    }


def challenge(names: Sequence[str], count: int, traces: Traces, device: Device, command: Sequence[str]) -> Row:
    """Have seeds challenge themselves, as a confirm does; how often noise would have promoted one."""
    promoted, judged, ratios = 0, 0, []
    with Served(command, MEASURED_DEADLINE_S) as bench:
        for turn in range(count):
            name = names[turn % len(names)]
            answer = bench.ask(_confirm(name, turn, traces, device))
            if isinstance(answer, Report) and answer.rival is not None:
                judged += 1
                promoted += answer.rival.low > PROMOTED
                ratios.append(answer.rival.mid)
    return {
        "confirms": count,
        "judged": judged,
        "promoted": promoted,
        "sd_ratio": statistics.stdev(ratios) if len(ratios) > 1 else None,
    }


def _confirm(name: str, turn: int, traces: Traces, device: Device) -> ConfirmJob:
    pacer = traces.pacers[name]
    return ConfirmJob(
        id=f"{name}-{turn}",
        search="sittings",
        candidate=name,
        variant=0,
        challenger=pacer,
        incumbent=pacer.reduced(),
        operator=operators()[name],
        graphs=traces.graphs[name],
        device=device,
    )


def _said(answer: Answer) -> Row:
    if not isinstance(answer, Report):
        return {"outcome": "failure", "reason": getattr(answer, "error", ""), "over_pacer": {}, "stages_s": {}}
    ratios = {item.shape: ratio["mid"] for item in answer.shapes if (ratio := over_pacer(item)) is not None}
    return {
        "outcome": answer.outcome.value,
        "reason": answer.reason[:200],
        "over_pacer": ratios,
        "stages_s": answer.stages_s,
        "controls": answer.controls,
    }


def spread(count: int) -> list[Honest]:
    """Some of the honest kernels, the same every time, as evenly over operators as their order allows."""
    by_operator: dict[str, list[Honest]] = defaultdict(list)
    for kernel in honest_kernels().values():
        by_operator[kernel.operator].append(kernel)
    for kernels in by_operator.values():
        random.Random(1).shuffle(kernels)
    turns = (kernels[turn] for turn in range(count) for kernels in by_operator.values() if turn < len(kernels))
    return [kernel for kernel, _ in zip(turns, range(count), strict=False)]


def main() -> None:
    """Make `sittings.json`."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    options.add_argument("--count", type=int, default=50, help="kernels judged twice")
    options.add_argument("--confirms", type=int, default=200, help="seeds that challenge themselves")
    options.add_argument("--device", type=Device.parse, help="instead of the card's")
    chosen = options.parse_args()
    device = chosen.device or device_of(0)
    figures = Figures(chosen.out, "sittings")
    kernels = spread(chosen.count)
    traces = trace_all(kernels, device.target)
    jobs = [
        measure_job(kernel, variant, traces, device)
        for kernel in kernels
        if traces.knows(kernel.operator)
        for variant in traces.variants(kernel.name)
    ]
    operator_of = {job.id: job.operator.name for job in jobs}
    command, sittings = measuring(device), []
    for prepared in (False, True):
        order = random.sample(jobs, len(jobs))
        found, seconds = sit(order, command, prepared=prepared)
        sittings.append(found)
        row = {"sitting": len(sittings), "prepared": prepared, "seconds": seconds, "kernels": len(found)}
        row |= {"an_hour": 3600 * len(found) / seconds, "found": found}
        figures.add(
            row, f"sitting {len(sittings)}: {len(found)} kernels in {seconds:.1f} s, {row['an_hour']:.0f} an hour"
        )
    agreement = compare(*sittings, operator_of)
    print(agreement, flush=True)
    figures.conclude(agreement=agreement)
    names = [name for name in traces.pacers if traces.knows(name)]
    equal = challenge(names, chosen.confirms, traces, device, command)
    print(equal, flush=True)
    figures.conclude(equal=equal)


if __name__ == "__main__":
    main()
