"""A model of what proposals are worth, learned from what was judged.

It is a ridge regression of the logarithm of the objective on what is known of a proposal before it is traced: its
parameters, its moves, and its parent's readings and objective.
"""

from collections.abc import Mapping, Sequence
from math import log, log2
from typing import Any

import numpy as np

Features = Mapping[str, float]

STIFFNESS = 1.0
"""Weight of the penalty on coefficients: one observation's worth for features of about one."""
FEWEST = 24
"""Judged proposals before anything is ranked: with fewer, the ranking is mostly prior."""
FAILURE = 0.7
"""What a failure counts as, times the least objective seen: worse than all, but no outlier that bends the fit."""
READ = (
    "registers",
    "spill_bytes",
    "shared_bytes",
    "occupancy",
    "programs_per_sm",
    "num_warps",
    "load_width_bytes",
    "launches",
)
"""Readings of a parent that tell something of its children."""
SCALE = 4.0
"""Logarithms of readings are divided by this, so that they are about one."""


def features(
    parameters: Mapping[str, int], moves: Sequence[str], readings: Mapping[str, Any], objective: float | None
) -> Features:
    """What is known of a proposal before it is traced.

    Args:
        parameters: The numbers of its text, by name.
        moves: Names of what was done to its parent.
        readings: Of its parent at the first benchmark shape; empty where it has none.
        objective: Of its parent.
    """
    values = {name: log2(value) for name, value in parameters.items() if value > 0}
    squares = {f"{name} squared": value * value / 8 for name, value in values.items()}
    read = {f"of the parent: {name}": log2(1 + float(readings[name] or 0)) / SCALE for name in READ if name in readings}
    known = {"of the parent: objective": log(objective)} if objective else {}
    return {"": 1.0, **{f"move {name}": 1.0 for name in moves}, **values, **squares, **read, **known}


class Model:
    """A ridge regression on what was judged.

    Args:
        judged: Features and objectives; None for what was not correct, which counts as a little worse than the worst.
    """

    def __init__(self, judged: Sequence[tuple[Features, float | None]]) -> None:
        self.is_ready = len(judged) >= FEWEST and len({objective for _, objective in judged}) > 1
        self._mean, self._weights = 0.0, dict[str, float]()
        if not self.is_ready:
            return
        names = sorted({name for known, _ in judged for name in known})
        floor = FAILURE * min((objective for _, objective in judged if objective), default=1.0)
        rows = np.array([[known.get(name, 0.0) for name in names] for known, _ in judged])
        values = np.array([log(objective or floor) for _, objective in judged])
        self._mean = float(values.mean())
        found = np.linalg.solve(rows.T @ rows + STIFFNESS * np.eye(len(names)), rows.T @ (values - self._mean))
        self._weights = dict(zip(names, found.tolist(), strict=True))

    def expect(self, known: Features) -> float:
        """Logarithm of the objective that is expected."""
        return self._mean + sum(self._weights.get(name, 0.0) * value for name, value in known.items())

    def choose(self, offered: Sequence[Features]) -> int:
        """Place of the one of which most is expected; of the first while too little is known."""
        if not self.is_ready:
            return 0
        return max(range(len(offered)), key=lambda place: (self.expect(offered[place]), -place))
