"""Honest kernels judged in two sittings, equal kernels up for promotion: what can be repeated, and what luck can do.

    python -m benchmarks.repeatability --out results --count 50 --confirms 200 --benches 3
    python -m benchmarks.repeatability --count 0 --confirms 1000 --challengers rope --shapes 1 --benches 3 --minutes 9

Several cards of a host take parts of the confirms, and `--rows` makes one result, `equal.json`, of all of them:

    python -m benchmarks.repeatability --out results --rows a/sittings.json b/sittings.json

How sure a rank correlation is, and what it is among kernels that are as fast as their seeds, follows from a file:

    python -m benchmarks.repeatability --agreement sittings.json

Every verdict is in the file as soon as it is known; `--minutes` is for both. Each sitting has benches of its own and
its own order. An equal kernel is the operator's seed, which challenges itself; whoever is promoted that way is promoted
by noise.
"""

import argparse
import json
import random
import statistics
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import closing
from itertools import chain, cycle, islice
from math import comb
from pathlib import Path
from typing import Any

from benchmarks.card import over_pacer
from benchmarks.correlation import spearman
from benchmarks.figures import FigureRows, Row, TimeAllowance, device_of
from tests.gpu.benches import Team, measuring
from tests.gpu.contracts import operators
from tests.gpu.honest import Honest, honest_kernels
from tests.gpu.judging import Traces, measure_job, trace_all
from workers.options import cache_home
from workers.protocol import (
    MEASURED_DEADLINE_S,
    PRACTICAL_MARGIN,
    Answer,
    CardShare,
    ConfirmJob,
    Device,
    MeasureJob,
    Report,
    ShapeRole,
)

BISECTIONS = 40
Pair = tuple[float, float]
TAIL = 0.025
RESAMPLES = 10_000
"""Draws of as many kernels as sat, with replacement."""
NEAR = 0.02
"""Maximum relative distance of a time that counts as near the seed's."""


def work_off(
    jobs: Iterable[MeasureJob | ConfirmJob], command: Sequence[str], benches: int, allowance: TimeAllowance
) -> Iterator[tuple[str, Answer, float]]:
    """Have benches of a card do jobs, the first one alone: what has to be found out once is kept for the others.

    Args:
        jobs: What to do.
        command: What starts a bench.
        benches: That share the card.
        allowance: Time for all of it.

    Yields:
        Of each job that there was time for its id, the answer, and the seconds that it took.
    """

    def ask(job: MeasureJob | ConfirmJob) -> list[tuple[str, Answer, float]]:
        if allowance.spent:
            return []
        started = time.perf_counter()
        return [(job.id, team.ask(job), time.perf_counter() - started)]

    remaining = iter(jobs)
    with closing(Team(command, MEASURED_DEADLINE_S)) as team, ThreadPoolExecutor(benches) as pool:
        for job in islice(remaining, 1):
            yield from pool.submit(ask, job).result()
        for done in as_completed([pool.submit(ask, job) for job in remaining]):
            yield from done.result()


def sit(
    jobs: Sequence[MeasureJob],
    command: Sequence[str],
    benches: int,
    figures: FigureRows,
    number: int,
    allowance: TimeAllowance,
) -> dict[str, Row]:
    """Judge jobs in benches of their own, a row each, and say how fast it went; what came out, by job."""
    found: dict[str, Row] = {}
    begun = time.perf_counter()
    for job, answer, wall_s in work_off(jobs, command, benches, allowance):
        row = found[job] = {**_said(answer), "wall_s": wall_s}
        figures.add({"sitting": number, "job": job, **row}, f"{number} {job} {row['outcome']}")
    seconds = time.perf_counter() - begun
    figures.conclude(**{f"sitting_{number}": {"kernels": len(found), "seconds": seconds, "benches": benches}})
    return found


def compare(first: dict[str, Row], second: dict[str, Row], operator_of: dict[str, str]) -> Row:
    """Agreement of two sittings: verdicts, and the ranks of times by operator and shape; of jobs that are in both."""
    first = {job: row for job, row in first.items() if job in second}
    same = sum(first[job]["outcome"] == second[job]["outcome"] for job in first)
    times: dict[str, list[Pair]] = defaultdict(list)
    for job, shape, pair in _pairs(first, second):
        times[f"{operator_of[job]} {shape}"].append(pair)
    ranks = {key: spearman(*zip(*pairs, strict=True)) for key, pairs in times.items()}
    known = [rank for rank in ranks.values() if rank is not None]
    both = [pair for pairs in times.values() for pair in pairs]
    moved = [abs(one / other - 1) for one, other in both]
    return {
        "kernels": len(first),
        "same_verdict": same / len(first) if first else None,
        "spearman": ranks,
        "median_spearman": statistics.median(known) if known else None,
        "spearman_of_all": spearman(*zip(*both, strict=True)) if both else None,
        **certainty(first, second),
        "median_change": statistics.median(moved) if moved else None,
        "p90_change": sorted(moved)[int(0.9 * len(moved))] if moved else None,
    }


def certainty(first: Mapping[str, Row], second: Mapping[str, Row]) -> Row:
    """Return the 95 % bootstrap interval of the rank correlation of all times, and the correlation near 1.

    Ranks are of times over the seed's, of kernels of different operators: of a few that differ much, and of many that
    hardly differ.
    """
    by_job: dict[str, list[Pair]] = defaultdict(list)
    for job, _, pair in _pairs(first, second):
        by_job[job].append(pair)
    groups, draw = list(by_job.values()), random.Random(1)
    drawn = (list(chain.from_iterable(draw.choices(groups, k=len(groups)))) for _ in range(RESAMPLES if groups else 0))
    found = sorted(rank for pairs in drawn if (rank := spearman(*zip(*pairs, strict=True))) is not None)
    near = [pair for pair in chain.from_iterable(groups) if abs(pair[0] - 1) <= NEAR]
    return {
        "spearman_bounds": [found[int(at * (len(found) - 1))] for at in (TAIL, 1 - TAIL)] if found else None,
        "near_seed": len(near),
        "spearman_near_seed": spearman(*zip(*near, strict=True)) if near else None,
    }


def _pairs(first: Mapping[str, Row], second: Mapping[str, Row]) -> Iterator[tuple[str, str, Pair]]:
    """Jobs and shapes that were timed in both sittings, with their times over the seed's."""
    for job, row in first.items():
        for shape, ratio in row["over_pacer"].items():
            if job in second and shape in second[job]["over_pacer"]:
                yield job, shape, (ratio, second[job]["over_pacer"][shape])


def challenge(
    jobs: Iterable[ConfirmJob], command: Sequence[str], benches: int, figures: FigureRows, allowance: TimeAllowance
) -> None:
    """Have seeds challenge themselves, as a confirm does, a row each, and say how often noise would promote one."""
    begun = time.perf_counter()
    for job, answer, wall_s in work_off(jobs, command, benches, allowance):
        row = _confirmed(job, answer) | {"wall_s": wall_s}
        figures.add(row, f"{job} {row['rival']} {wall_s:.2f} s")
    confirmed = [row for row in figures.rows if "confirm" in row]
    seconds = time.perf_counter() - begun
    figures.conclude(equal={**tally(confirmed), "benches": benches, "seconds": seconds})


def tally(rows: Sequence[Mapping[str, Any]]) -> Row:
    """Count the confirms of equal kernels; `at_most` is the upper end of the 95 % interval of the share promoted."""
    ratios = [row["rival"]["mid"] for row in rows if row["rival"]]
    promoted = sum(row.get("promoted", False) for row in rows)
    return {
        "confirms": len(rows),
        "judged": len(ratios),
        "promoted": promoted,
        "at_most": upper_bound(promoted, len(ratios)),
        "lower_end_over_1": sum(row["rival"]["low"] > 1 for row in rows if row["rival"]),
        "sd_ratio": statistics.stdev(ratios) if len(ratios) > 1 else None,
    }


def join(files: Iterable[Path], folder: Path, card: int) -> None:
    """One result of the confirms in several files."""
    figures = FigureRows(folder, "equal", card)
    figures.rows += [row for file in files for row in json.loads(file.read_text())["rows"] if "confirm" in row]
    figures.conclude(equal=tally(figures.rows))


def upper_bound(found: int, among: int) -> float | None:
    """Return the upper end of the two-sided 95 % interval of a share (Clopper and Pearson 1934), by bisection."""
    if found >= among:
        return 1.0 if among else None
    low, high = found / among, 1.0
    for _ in range(BISECTIONS):
        share = (low + high) / 2
        so_few = sum(comb(among, k) * share**k * (1 - share) ** (among - k) for k in range(found + 1))
        low, high = (share, high) if so_few > TAIL else (low, share)
    return high


def _confirm(name: str, turn: int, shapes: int | None, traces: Traces, device: Device) -> ConfirmJob:
    """A seed against itself at its first shapes; the last ones if `shapes` is negative."""
    whole = traces.pacers[name]
    timed = whole.benchmarks[shapes:] if shapes is not None and shapes < 0 else whole.benchmarks[:shapes]
    checked = (plan for plan in whole.plans if plan.shape.role is not ShapeRole.BENCHMARK)
    pacer = whole.restricted([*checked, *timed])
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


def _confirmed(job: str, answer: Answer) -> Row:
    row: Row = {"confirm": job, "rival": None}
    if isinstance(answer, Report) and answer.rival is not None:
        promoted = answer.rival.low > 1 + PRACTICAL_MARGIN
        return row | {"rival": answer.rival.model_dump(), "promoted": promoted, "stages_s": answer.stages_s}
    return row | {"reason": str(getattr(answer, "reason", "") or getattr(answer, "error", ""))[:200]}


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
    options.add_argument("--challengers", default="", help="operators whose seeds do; all that sat if empty")
    options.add_argument("--shapes", type=int, help="of confirms: so many first ones, or last if negative")
    options.add_argument("--minutes", type=float, default=60.0, help="after which nothing more is begun")
    options.add_argument("--data", type=Path, default=cache_home(), help="where baselines of confirms are kept")
    options.add_argument("--card", type=int, default=0)
    options.add_argument("--benches", type=int, default=1, help="that share the card")
    options.add_argument("--device", type=Device.parse, help="instead of the card's")
    options.add_argument("--rows", type=Path, nargs="+", help="join the confirms in these files, and judge nothing")
    options.add_argument("--agreement", type=Path, help="say how sure it is in this file, and judge nothing")
    chosen = options.parse_args()
    if chosen.agreement:
        rows = json.loads(chosen.agreement.read_text())["rows"]
        print(certainty(*({row["job"]: row for row in rows if row.get("sitting") == number} for number in (1, 2))))
        return
    if chosen.rows:
        join(chosen.rows, chosen.out, chosen.card)
        return
    device = chosen.device or device_of(chosen.card)
    figures = FigureRows(chosen.out, "sittings", chosen.card)
    allowance = TimeAllowance(60 * chosen.minutes)
    kernels = spread(chosen.count)
    challengers = [name for name in chosen.challengers.split(",") if name]
    seeds = [Honest(f"{name}/seed", name, operators()[name].seeds[0]) for name in challengers]
    also = [seed for seed in seeds if seed.operator not in {kernel.operator for kernel in kernels}]
    traces = trace_all([*kernels, *also], device.target)
    jobs = [
        measure_job(kernel, variant, traces, device)
        for kernel in kernels
        if traces.knows(kernel.operator)
        for variant in traces.variants(kernel.name)
    ]
    operator_of = {job.id: job.operator.name for job in jobs}
    command = measuring(device, CardShare(chosen.card, chosen.benches), chosen.data)
    sittings = [
        sit(random.sample(jobs, len(jobs)), command, chosen.benches, figures, number, allowance)
        for number in ((1, 2) if jobs else ())
    ]
    if sittings:
        figures.conclude(agreement=compare(*sittings, operator_of))
    names = [name for name in challengers or sorted(traces.pacers) if traces.knows(name)]
    turns = zip(range(chosen.confirms), cycle(names), strict=False)
    confirms = (_confirm(name, turn, chosen.shapes, traces, device) for turn, name in turns)
    challenge(confirms, command, chosen.benches, figures, allowance)


if __name__ == "__main__":
    main()
