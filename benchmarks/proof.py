"""Our search against the best of N random kernels: contenders in recorded spaces, at equal evaluations.

    python -m benchmarks.proof --landscapes operators/landscapes/h200 --evaluations 300 --seeds 5

Every contender judges the same number of different kernels of the same recorded space; a kernel's worth is the lower
bound of its speedup over the seed kernel. Written are `proof.json`, a row a run with its best-so-far curve, and a plot
an operator. Figures are those of the recording: `provenance` says whether a card measured them once or a model
predicted them.
"""

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from math import exp, log
from pathlib import Path
from typing import Any

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.grid import Grid
from benchmarks.contenders import BestOfN, Contender, HillClimbing, KernelreefSearch
from benchmarks.efforts import NEVER, efforts, evaluations_to
from benchmarks.other_searches import OpenEvolveSearch, PyribsSearch, installed
from benchmarks.record import RESULTS, write
from benchmarks.recorded_space import RecordedKernel, RecordedSpace, load

ASKS_AN_EVALUATION = 40
"""A contender that keeps asking for what was judged before has nothing new to say."""
SHARES_OF_BEST = (0.95, 0.99)
DIGITS = 5
"""Digits of stored speedups, in curves and in what is compared with them."""
BASIS = "best of N"
Row = dict[str, Any]

CONTENDERS: dict[str, Callable[[RecordedSpace, int], Contender]] = {
    "ours": KernelreefSearch,
    "ours, screening on": partial(KernelreefSearch, screened=True),
    "ours, screening on, bandit off": partial(KernelreefSearch, screened=True, bandit=False),
    "ours, bandit off": partial(KernelreefSearch, bandit=False),
    BASIS: BestOfN,
    "hill climbing": HillClimbing,
    "pyribs": PyribsSearch,
    "OpenEvolve": OpenEvolveSearch,
}
"""Contenders by name."""
NEEDS = {"pyribs": "ribs", "OpenEvolve": "openevolve"}


def compete(contender: Contender, evaluations: int) -> tuple[list[RecordedKernel], list[float]]:
    """Let a contender search; the kernels it had judged, and the best objective after each."""
    judged: dict[int, RecordedKernel] = {}
    curve: list[float] = []
    for _ in range(ASKS_AN_EVALUATION * evaluations):
        kernel = contender.ask()
        contender.tell(kernel)
        if kernel.number not in judged:
            judged[kernel.number] = kernel
            curve.append(max(curve[-1] if curve else 0.0, kernel.objective or 0.0))
            if len(curve) == evaluations:
                break
    return list(judged.values()), curve


def qd_score(space: RecordedSpace, judged: Iterable[RecordedKernel]) -> tuple[float, float]:
    """Sum of the best objectives of the filled cells, and the share of cells that are filled."""
    held: dict[int, float] = {}
    for kernel in judged:
        if kernel.cell is not None and kernel.objective is not None:
            held[kernel.cell] = max(held.get(kernel.cell, 0.0), kernel.objective)
    return sum(held.values()), len(held) / space.grid.cells


def portfolio_gain(judged: Iterable[RecordedKernel]) -> float | None:
    """Return the gain of a dispatcher that takes the fastest elite of each shape over the single best kernel."""
    correct = [kernel for kernel in judged if kernel.speedups]
    if not correct:
        return None
    shapes = list(correct[0].speedups)
    single = max(_mean(kernel.speedups.values()) for kernel in correct)
    return _mean([max(kernel.speedups[shape] for kernel in correct) for shape in shapes]) / single


def run(space: RecordedSpace, name: str, seed: int, evaluations: int) -> Row:
    """One contender in one space with one seed."""
    contender = CONTENDERS[name](space, seed)
    judged, curve = compete(contender, evaluations)
    score, coverage = qd_score(space, judged)
    row: Row = {
        "operator": space.operator,
        "provenance": space.provenance,
        "contender": name,
        "seed": seed,
        "evaluations": len(curve),
        "best": round(curve[-1], DIGITS),
        "best_known": space.best,
        **{f"to_{share:.0%}": evaluations_to(curve, share * space.best) for share in SHARES_OF_BEST},
        "qd_score": score,
        "coverage": coverage,
        "portfolio_gain": portfolio_gain(judged),
        "curve": [round(best, DIGITS) for best in curve],
    }
    if isinstance(contender, KernelreefSearch):
        row |= {"screened_out": contender.screened_out}
    return row


def summaries(rows: Sequence[Row]) -> list[Row]:
    """By operator and contender: medians over seeds, and how soon the basis' final best is reached."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["operator"], row["contender"]), []).append(row)
    finals = {
        operator: _median([row["best"] for row in group]) for (operator, name), group in groups.items() if name == BASIS
    }
    return [_summary(operator, name, group, finals.get(operator)) for (operator, name), group in groups.items()]


def _summary(operator: str, name: str, group: Sequence[Row], level: float | None) -> Row:
    budget = max(row["evaluations"] for row in group)
    reached = [] if level is None else [evaluations_to(row["curve"], level) for row in group]
    return {
        "operator": operator,
        "contender": name,
        "runs": len(group),
        "median_best": _median([row["best"] for row in group]),
        "best_known": group[0]["best_known"],
        **{
            f"median_{key}": _median([budget * NEVER if row[key] is None else row[key] for row in group])
            if sum(row[key] is not None for row in group) * 2 > len(group)
            else None
            for key in (f"to_{share:.0%}" for share in SHARES_OF_BEST)
        },
        "median_qd_score": _median([row["qd_score"] for row in group]),
        "median_coverage": _median([row["coverage"] for row in group]),
        "median_portfolio_gain": _median([row["portfolio_gain"] or 1.0 for row in group]),
        "runs_that_reached_basis": sum(item is not None for item in reached),
        "median_evaluations_to_basis": _median([budget * NEVER if item is None else item for item in reached])
        if sum(item is not None for item in reached) * 2 > len(group)
        else None,
    }


def spaces(folder: Path, axes: Sequence[str]) -> dict[str, RecordedSpace]:
    """Every landscape of a folder, by operator."""
    grid = Grid([DESCRIPTORS[name].axis for name in axes])
    paths = sorted({*folder.glob("*.jsonl"), *folder.glob("*.jsonl.gz")}, reverse=True)
    return {path.name.partition(".")[0]: load(path, grid) for path in paths}


def _mean(values: Iterable[float]) -> float:
    found = list(values)
    return exp(sum(map(log, found)) / len(found))


def _median(values: Sequence[float]) -> float:
    return statistics.median(values)


def main() -> None:
    """Let all compete, and write down what came of it."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--landscapes", type=Path, required=True, help="folder with a file an operator")
    options.add_argument("--out", type=Path, default=RESULTS)
    options.add_argument("--evaluations", type=int, default=300)
    options.add_argument("--seeds", type=int, default=5)
    options.add_argument("--operators", default="", help="names with commas; all of the folder if not given")
    options.add_argument("--rows", type=Path, nargs="*", default=(), help="files of earlier runs to take along")
    options.add_argument("--processes", type=int, default=2)
    options.add_argument("--axes", default=",".join(DEFAULT_AXES))
    options.add_argument("--contenders", default=";".join(CONTENDERS), help="names with semicolons")
    chosen = options.parse_args()
    names = [name for name in CONTENDERS if NEEDS.get(name) in (None, *installed())]
    names = [name for name in names if name in chosen.contenders.split(";")]
    rows: list[Row] = [row for path in chosen.rows for row in json.loads(path.read_text())["rows"]]
    found = spaces(chosen.landscapes, chosen.axes.split(","))
    searched = chosen.operators.split(",") if chosen.operators else list(found)
    with ProcessPoolExecutor(chosen.processes) as pool:
        begun = {
            operator: [
                pool.submit(run, space, name, seed, min(chosen.evaluations, len(space.kernels) // 2))
                for name in names
                for seed in range(chosen.seeds)
            ]
            for operator, space in found.items()
            if operator in searched
        }
        for runs in begun.values():
            rows += [future.result() for future in runs]
    for row in summaries(rows):
        print({key: round(value, 4) if isinstance(value, float) else value for key, value in row.items()}, flush=True)
    sizes = {name: {"kernels": len(space.kernels), "templates": len(space.templates)} for name, space in found.items()}
    budgets = (chosen.evaluations // 2, chosen.evaluations)
    compared = [row for budget in budgets for row in efforts(rows, BASIS, budget)]
    write("proof", rows, chosen.out, summaries=summaries(rows), efforts=compared, spaces=sizes)


if __name__ == "__main__":
    main()
