"""A model of what proposals are worth, learned from what was judged.

It is a Gaussian process over what is known of a proposal before its text is written: the rules on its whole way from
a seed, and its parameters. It learns ranks, not times: one kernel that is ten times slower than all others, or does
not work, bends nothing.
"""

from collections.abc import Mapping, Sequence
from math import log2
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Features = Mapping[str, float]
Array = NDArray[np.float64]

FEWEST = 12
"""Judged proposals before anything is ranked: with fewer, the ranking is mostly prior."""
SCALE = 4.0
"""Powers of two that count as much as a rule: a parameter from one end of its ladder to the middle."""
LENGTHS = (0.5, 1.0, 2.0, 4.0)
"""Distances over which worth changes; the likeliest is taken. A rule is a distance of 1."""
NOISES = (0.01, 0.1)
"""Variances of a verdict, where those of all verdicts together are 1; the likeliest is taken."""
CURIOSITY = 1.0
"""Standard deviations that are added to what is expected: what is little known is tried sooner."""


def features(parameters: Mapping[str, int], trail: Sequence[str]) -> Features:
    """What is known of a proposal before its text is written.

    Args:
        parameters: Its numbers, by name.
        trail: Names of the rules on its way from a seed, and of what else it came of.
    """
    values = {f"number {name}": log2(value) / SCALE for name, value in parameters.items() if value > 0}
    return {**{f"rule {name}": 1.0 for name in trail}, **values}


class Surrogate:
    """A Gaussian process on what was judged.

    Args:
        judged: Features and objectives; None for what was not correct, which ranks below all else.
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
        """What each may be worth: its expected standing among all judged, and more where little is known.

        Args:
            offered: Features of proposals, of a model that is ready.

        Returns:
            Standard normal quantiles: 0 is the median of what was judged.
        """
        if not offered:
            return []
        near = np.exp(-_squared(self._vectors(offered), self._points) / (2 * self._length**2))
        unknown = np.maximum(1.0 - ((near @ self._inverse) * near).sum(axis=1), 0.0)
        found: list[float] = (near @ self._weights + CURIOSITY * np.sqrt(unknown)).tolist()
        return found

    def _vectors(self, found: Sequence[Features]) -> Array:
        """A row each; what no judged proposal has lies outside all of them, by one column for the rest."""
        rows = np.zeros((len(found), len(self._names) + 1))
        for row, known in zip(rows, found, strict=True):
            for name, value in known.items():
                place = self._names.get(name, -1)
                row[place] = value if place >= 0 else np.hypot(row[place], value)
        return rows


def _standardised(values: Sequence[float]) -> Array:
    """Ranks as normal quantiles; equal values share one. The variance is 1."""
    ordered = np.sort(values)
    middle = (np.searchsorted(ordered, values, "left") + np.searchsorted(ordered, values, "right")) / (2 * len(values))
    found = np.array([NormalDist().inv_cdf(share) for share in middle])
    standing: Array = (found - found.mean()) / found.std()
    return standing


def _squared(one: Array, two: Array) -> Array:
    """Squared distances, a row for each of `one`, a column for each of `two`."""
    found: Array = (one**2).sum(axis=1)[:, None] + (two**2).sum(axis=1)[None, :] - 2 * one @ two.T
    return found.clip(min=0.0)


def _fit(apart: Array, values: Array, length: float, noise: float) -> tuple[float, float, Array, Array]:
    """The likelihood of values under a length and a noise, with that length, and what predictions need."""
    covariance = np.exp(-apart / (2 * length**2)) + noise * np.eye(len(values))
    inverse = np.asarray(np.linalg.inv(covariance), np.float64)
    weights = inverse @ values
    likelihood = -0.5 * float(values @ weights) - 0.5 * float(np.linalg.slogdet(covariance)[1])
    return likelihood, length, inverse, weights
