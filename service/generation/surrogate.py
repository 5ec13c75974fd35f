"""Surrogate model: predicts the rank of proposals, learned from evaluated candidates.

It is a Gaussian process over the features that are known before a proposal's text is written: the rules on its whole
path from a seed, and its parameters. It learns ranks, not times, so that one kernel that fails or is ten times slower
than all others does not distort it.
"""

from collections.abc import Mapping, Sequence
from math import log2
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Features = Mapping[str, float]
Array = NDArray[np.float64]

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
        self._points = self._vectors([known for known, _ in judged])
        values = _standardised([objective or 0.0 for _, objective in judged])
        apart = _squared(self._points, self._points)
        fits = [_fit(apart, values, length, noise) for length in LENGTHS for noise in NOISES]
        _, self._length, self._inverse, self._weights = max(fits, key=lambda fit: fit[0])

    def acquisition(self, offered: Sequence[Features]) -> list[float]:
        """Return the upper confidence bound of each proposal's rank. The model must be ready.

        Args:
            offered: Features of proposals.

        Returns:
            Standard normal quantiles: 0 is the median of the evaluated proposals.
        """
        if not offered:
            return []
        near = np.exp(-_squared(self._vectors(offered), self._points) / (2 * self._length**2))
        unknown = np.maximum(1.0 - ((near @ self._inverse) * near).sum(axis=1), 0.0)
        found: list[float] = (near @ self._weights + CURIOSITY * np.sqrt(unknown)).tolist()
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


def _squared(one: Array, two: Array) -> Array:
    """Return squared distances, one row per point of `one`, one column per point of `two`."""
    found: Array = (one**2).sum(axis=1)[:, None] + (two**2).sum(axis=1)[None, :] - 2 * one @ two.T
    return found.clip(min=0.0)


def _fit(apart: Array, values: Array, length: float, noise: float) -> tuple[float, float, Array, Array]:
    """Fit one length and noise. Returns the log likelihood, the length, the inverse covariance and the weights."""
    covariance = np.exp(-apart / (2 * length**2)) + noise * np.eye(len(values))
    inverse = np.asarray(np.linalg.inv(covariance), np.float64)
    weights = inverse @ values
    likelihood = -0.5 * float(values @ weights) - 0.5 * float(np.linalg.slogdet(covariance)[1])
    return likelihood, length, inverse, weights
