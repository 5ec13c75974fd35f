"""A Gaussian process: interpolates few noisy values, and says how sure it is."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


class GaussianProcess:
    """Gaussian process on some points, with the likeliest of the given hyperparameters.

    Args:
        points: Points, one per row.
        values: Value at each point, with a mean of 0 and a variance of 1.
        lengths: Length scales of the kernel function.
        noises: Noise variances, relative to a variance of 1 over all values.
        slope: Prior variance of a linear trend and of its constant; 0 for none.
    """

    def __init__(
        self, points: Array, values: Array, lengths: Sequence[float], noises: Sequence[float], slope: float = 0.0
    ) -> None:
        self._points, self._slope = points, slope
        apart, trend = squared_distances(points, points), self._trend(points)
        fits = [_fit(apart, trend, values, length, noise) for length in lengths for noise in noises]
        _, self.length, self._inverse, self._weights = max(fits, key=lambda fit: fit[0])

    def predict(self, points: Array) -> tuple[Array, Array]:
        """Return the mean at each point, and the standard deviation of the value there without its noise."""
        near = np.exp(-squared_distances(points, self._points) / (2 * self.length**2)) + self._trend(points)
        prior = 1.0 + self._slope * ((points**2).sum(axis=1) + 1.0)
        unknown = np.maximum(prior - ((near @ self._inverse) * near).sum(axis=1), 0.0)
        return near @ self._weights, np.sqrt(unknown)

    def _trend(self, points: Array) -> Array:
        found: Array = self._slope * (points @ self._points.T + 1.0)
        return found


def squared_distances(one: Array, two: Array) -> Array:
    """Return squared distances, one row per point of `one`, one column per point of `two`."""
    found: Array = (one**2).sum(axis=1)[:, None] + (two**2).sum(axis=1)[None, :] - 2 * one @ two.T
    return found.clip(min=0.0)


def _fit(apart: Array, trend: Array, values: Array, length: float, noise: float) -> tuple[float, float, Array, Array]:
    """Fit one length and noise. Returns the log likelihood, the length, the inverse covariance and the weights."""
    covariance = np.exp(-apart / (2 * length**2)) + trend + noise * np.eye(len(values))
    inverse = np.asarray(np.linalg.inv(covariance), np.float64)
    weights = inverse @ values
    likelihood = -0.5 * float(values @ weights) - 0.5 * float(np.linalg.slogdet(covariance)[1])
    return likelihood, length, inverse, weights
