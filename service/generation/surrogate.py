"""Surrogate model: predicts the rank of proposals, learned from evaluated candidates.

It is a Gaussian process over the features that are known before a proposal's text is written: the rules on its whole
path from a seed, and its parameters. It learns ranks, not times, so that one kernel that fails or is ten times slower
than all others does not distort it.
"""

from collections.abc import Mapping, Sequence
from math import log2
from statistics import NormalDist

import numpy as np

from service.gaussian_process import Array, GaussianProcess

Features = Mapping[str, float]

FEWEST = 12
"""Minimum number of evaluated proposals before anything is ranked: with fewer, the ranking is mostly prior."""
SCALE = 4.0
"""Number of powers of two that count as much as one rule: half of a parameter's range."""
LENGTHS = (0.5, 1.0, 2.0, 4.0)
"""Length scales of the kernel function; the likeliest is taken. A rule is a distance of 1."""
NOISES = (0.01, 0.1)
"""Noise variances, relative to a variance of 1 over all verdicts; the likeliest is taken."""
CURIOSITY = 1.0
"""Standard deviations that are added to the mean, so that uncertain proposals are tried sooner."""


def features(parameters: Mapping[str, int], trail: Sequence[str]) -> Features:
    """Return the features of a proposal that are known before its text is written.

    Args:
        parameters: Its numbers, by name.
        trail: Names of the rules on its path from a seed, and of the texts on it that no rule made.
    """
    values = {f"number {name}": log2(value) / SCALE for name, value in parameters.items() if value > 0}
    return {**{f"rule {name}": 1.0 for name in trail}, **values}


class Surrogate:
    """Gaussian process on evaluated proposals.

    Args:
        judged: Features and objectives; None for an incorrect one, which ranks below all correct ones.
    """

    def __init__(self, judged: Sequence[tuple[Features, float | None]]) -> None:
        self.is_ready = len(judged) >= FEWEST and len({objective for _, objective in judged}) > 1
        if not self.is_ready:
            return
        names = sorted({name for known, _ in judged for name in known})
        self._names = {name: place for place, name in enumerate(names)}
        points = self._vectors([known for known, _ in judged])
        values = _standardised([objective or 0.0 for _, objective in judged])
        self._process = GaussianProcess(points, values, LENGTHS, NOISES)

    def acquisition(self, offered: Sequence[Features]) -> list[float]:
        """Return the upper confidence bound of each proposal's rank. The model must be ready.

        Args:
            offered: Features of proposals.

        Returns:
            Standard normal quantiles: 0 is the median of the evaluated proposals.
        """
        if not offered:
            return []
        mean, deviation = self._process.predict(self._vectors(offered))
        found: list[float] = (mean + CURIOSITY * deviation).tolist()
        return found

    def _vectors(self, found: Sequence[Features]) -> Array:
        """Make one row per proposal; features that no evaluated proposal has share one further column."""
        rows = np.zeros((len(found), len(self._names) + 1))
        for row, known in zip(rows, found, strict=True):
            for name, value in known.items():
                place = self._names.get(name, -1)
                row[place] = value if place >= 0 else np.hypot(row[place], value)
        return rows


def _standardised(values: Sequence[float]) -> Array:
    """Convert values to normal quantiles of their ranks, scaled to variance 1; equal values share one."""
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(values))
    found = np.array([NormalDist().inv_cdf(share) for share in middle])
    standing: Array = (found - found.mean()) / found.std()
    return standing
