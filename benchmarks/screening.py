"""Screening: a model of what proposals are worth, learned from the reports of one search while it runs.

It ranks proposals before anything is traced, so that the better ones are judged first. It may reorder and drop; what
a kernel is worth, its report alone decides. The model is a ridge regression of the logarithm of the objective on
features that are known of a proposal's text; what is not correct counts as a little worse than the worst.
"""

from collections.abc import Mapping, Sequence
from math import log
from typing import TypeVar

import numpy as np

Features = Mapping[str, float]
Item = TypeVar("Item")

STIFFNESS = 1.0
"""Weight of the penalty on coefficients: one observation's worth for features of about one."""
FEWEST = 24
"""Judged proposals before anything is ranked: with fewer, the ranking is mostly prior."""
FAILURE = 0.7
"""What a failure counts as, times the least objective seen: worse than all, but no outlier that bends the fit."""


class Screen:
    """What was learned so far. Everything that it was told is kept, and fitted when somebody asks."""

    def __init__(self) -> None:
        """Know nothing."""
        self._seen: list[tuple[Features, float | None]] = []
        self._weights: dict[str, float] = {}
        self._mean = 0.0
        self._fresh = False

    def learn(self, features: Features, objective: float | None) -> None:
        """Take in a judged proposal; `objective` is None unless it was correct."""
        self._seen.append((features, objective))
        self._fresh = False

    @property
    def is_ready(self) -> bool:
        """Whether enough is known to rank by, and there is any difference to learn from."""
        return len(self._seen) >= FEWEST and len({objective for _, objective in self._seen}) > 1

    def expect(self, features: Features) -> float:
        """Logarithm of the objective that the model expects."""
        if not self._fresh:
            self._fit()
        return self._mean + sum(self._weights.get(name, 0.0) * value for name, value in features.items())

    def ranked(self, items: Sequence[tuple[Item, Features]]) -> list[Item]:
        """The items, those first of which most is expected; in their own order while too little is known."""
        if not self.is_ready:
            return [item for item, _ in items]
        order = sorted(range(len(items)), key=lambda place: -self.expect(items[place][1]))
        return [items[place][0] for place in order]

    def _fit(self) -> None:
        names = sorted({name for features, _ in self._seen for name in features})
        known = [objective for _, objective in self._seen if objective]
        floor = FAILURE * min(known, default=1.0)
        rows = np.array([[features.get(name, 0.0) for name in names] for features, _ in self._seen])
        values = np.array([log(objective or floor) for _, objective in self._seen])
        self._mean = float(values.mean())
        penalty = STIFFNESS * np.eye(len(names))
        found = np.linalg.solve(rows.T @ rows + penalty, rows.T @ (values - self._mean))
        self._weights = dict(zip(names, found.tolist(), strict=True))
        self._fresh = True
