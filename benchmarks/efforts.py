"""Evaluations that each contender of the proof needs to reach another one's result, with intervals."""

import random
import statistics
from collections.abc import Sequence
from math import exp, log
from typing import Any

RESAMPLES = 4000
"""Number of resamplings of runs for the 95 % interval of a ratio."""
NEVER = 2
"""A run that did not get there counts as this many times its budget."""
Row = dict[str, Any]


def efforts(rows: Sequence[Row], basis: str, budget: int) -> list[Row]:
    """By contender, over all operators and seeds: evaluations to the basis' final best, the median of its seeds.

    Args:
        rows: Runs; curves are looked at as far as the budget goes.
        basis: Who sets the goal.
        budget: Evaluations.
    """
    operators = sorted({row["operator"] for row in rows})
    goals = {name: statistics.median(_final(row, budget) for row in _of(rows, name, basis)) for name in operators}
    spent = {
        contender: [_needed(row, goals[name], budget) for name in operators for row in _of(rows, name, contender)]
        for contender in dict.fromkeys(row["contender"] for row in rows)
    }
    return [
        {
            "contender": contender,
            "budget": budget,
            "mean_evaluations": statistics.fmean(mine),
            "never": sum(each == NEVER * budget for each in mine),
            "final_best": statistics.fmean(
                _final(row, budget) / row["best_known"] for row in rows if row["contender"] == contender
            ),
            "of_basis": _ratio(mine, spent[basis]),
        }
        for contender, mine in spent.items()
    ]


def evaluations_to(curve: Sequence[float], level: float) -> int | None:
    """Evaluations until the best reaches a level; None if it never does."""
    return next((place for place, best in enumerate(curve, 1) if best >= level), None)


def _of(rows: Sequence[Row], operator: str, contender: str) -> list[Row]:
    found = [row for row in rows if (row["operator"], row["contender"]) == (operator, contender)]
    return sorted(found, key=lambda row: int(row["seed"]))


def _final(row: Row, budget: int) -> float:
    curve: list[float] = row["curve"]
    return curve[min(budget, len(curve)) - 1]


def _needed(row: Row, goal: float, budget: int) -> int:
    return evaluations_to(row["curve"][:budget], goal) or NEVER * budget


def _ratio(mine: Sequence[int], others: Sequence[int]) -> dict[str, float]:
    """Geometric mean of evaluations over the basis', with the interval that resampled runs give."""
    logs = [log(one / other) for one, other in zip(mine, others, strict=True)]
    rng = random.Random(0)
    means = sorted(statistics.fmean(rng.choices(logs, k=len(logs))) for _ in range(RESAMPLES))
    low, high = means[int(0.025 * RESAMPLES)], means[int(0.975 * RESAMPLES)]
    return {"low": exp(low), "mid": exp(statistics.fmean(logs)), "high": exp(high)}
