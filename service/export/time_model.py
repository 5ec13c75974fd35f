"""Times of kernels relative to PyTorch at shapes between those that were measured, and where they are unsure."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from service.export.decision_tree import ALIGNED, PYTORCH, TimedShape
from service.gaussian_process import Array, GaussianProcess

FEWEST = 8
"""Minimum number of shapes with times of a kernel and of PyTorch; with fewer, nothing is predicted."""
SCALE = 4.0
"""Number of powers of two of a size that count as much as its divisibility by 16."""
LENGTHS = (1.0, 2.0, 4.0)
"""Length scales of the kernel function; the likeliest is taken."""
NOISES = (0.01, 0.05)
"""Noise variances, relative to a variance of 1 over all shapes; the likeliest is taken."""
SLOPE = 1.0
"""Prior variance of the trend: far from all measured shapes, times follow powers of the sizes."""
CAUTION = 0.3
"""Standard deviations that a kernel is taken to be slower than predicted, so that PyTorch serves where it is unsure."""
LEAST_RISK = 0.004
"""Least relative time that a wrong choice is expected to lose at a shape, for the shape to be worth a measurement."""
NEIGHBOURHOOD = 0.5
"""Distance up to which one measurement tells about other shapes: two powers of two of one size."""
_NORMAL = NormalDist()

Sizes = Mapping[str, int]


@dataclass(frozen=True)
class _Kernel:
    """Model of one kernel: logarithms of its time over that of PyTorch."""

    process: GaussianProcess
    mean: float
    deviation: float

    def predict(self, points: Array) -> tuple[Array, Array]:
        mean, deviation = self.process.predict(points)
        return self.mean + self.deviation * mean, self.deviation * deviation


class TimeModel:
    """Predictions from the times at some shapes. It is for kernels and PyTorch that were timed at the same shapes.

    Args:
        timed: Shapes with times; those of a kernel that lack its time or that of PyTorch say nothing about it.
        names: Names of the sizes that vary.
    """

    def __init__(self, timed: Sequence[TimedShape], names: Sequence[str]) -> None:
        self._names = names
        self._kernels: dict[str, _Kernel] = {}
        for name in sorted({name for shape in timed for name in shape.times} - {PYTORCH}):
            known = [shape for shape in timed if {name, PYTORCH} <= set(shape.times)]
            if len(known) >= FEWEST:
                ratios = np.array([math.log(shape.times[name] / shape.times[PYTORCH]) for shape in known])
                mean, deviation = float(ratios.mean()), max(float(ratios.std()), 1e-9)
                points = self._points([shape.sizes for shape in known])
                process = GaussianProcess(points, (ratios - mean) / deviation, LENGTHS, NOISES, SLOPE)
                self._kernels[name] = _Kernel(process, mean, deviation)

    def at(self, shapes: Sequence[Sizes], admits: Callable[[str, Sizes], bool]) -> list[TimedShape]:
        """Return cautious times at some shapes, relative to PyTorch. Empty if nothing can be predicted.

        Args:
            shapes: Sizes.
            admits: Function that returns True if a kernel can serve some sizes.
        """
        if not self._kernels or not shapes:
            return []
        points = self._points(shapes)
        slow = {name: mean + CAUTION * deviation for name, (mean, deviation) in self._predicted(points).items()}
        return [
            TimedShape(
                sizes,
                {name: math.exp(logs[at]) for name, logs in slow.items() if admits(name, sizes)} | {PYTORCH: 1.0},
            )
            for at, sizes in enumerate(shapes)
        ]

    def unsure(self, shapes: Sequence[Sizes], count: int) -> list[Sizes]:
        """Return the shapes at which a measurement would help most: those where a wrong choice may lose most time.

        Args:
            shapes: Sizes that can be measured.
            count: Maximum number of shapes; fewer are returned where the choice is clear.
        """
        if not self._kernels or not shapes:
            return []
        points = self._points(shapes)
        left, found = self._risk(points), list[Sizes]()
        while len(found) < count and left.max() >= LEAST_RISK:
            at = int(left.argmax())
            found.append(shapes[at])
            apart = ((points - points[at]) ** 2).sum(axis=1)
            left = left * (1.0 - np.exp(-apart / (2 * NEIGHBOURHOOD**2)))
        return found

    def _risk(self, points: Array) -> Array:
        """Return the relative time that the choice of the likely best is expected to lose to the second best."""
        predicted = [*self._predicted(points).values(), (np.zeros(len(points)), np.zeros(len(points)))]
        means, deviations = (np.array(each) for each in zip(*predicted, strict=True))
        order, row = np.argsort(means, axis=0), np.arange(len(points))
        gap = means[order[1], row] - means[order[0], row]
        spread = np.hypot(deviations[order[0], row], deviations[order[1], row]) + 1e-9
        lost = [_expected_loss(each, wide) for each, wide in zip(gap, spread, strict=True)]
        return np.array(lost)

    def _predicted(self, points: Array) -> dict[str, tuple[Array, Array]]:
        return {name: kernel.predict(points) for name, kernel in self._kernels.items()}

    def _points(self, shapes: Sequence[Sizes]) -> Array:
        """Return the logarithm of each size, and its divisibility by 16."""
        return np.array(
            [
                [math.log2(max(1, sizes[name])) / SCALE for name in self._names]
                + [float(sizes[name] % ALIGNED == 0) for name in self._names]
                for sizes in shapes
            ]
        )


def left_out_loss(timed: Sequence[TimedShape], names: Sequence[str]) -> float | None:
    """Return the geometric-mean loss at shapes that are left out of the model one at a time; None without a model.

    It says what is lost at shapes that nobody measured, as far as they are like those that were.
    """
    known = [shape for shape in timed if len(shape.times) > 1 and PYTORCH in shape.times]
    found = [_left_out(shape, [other for other in known if other is not shape], names) for shape in known]
    logs = [log for log in found if log is not None]
    return math.exp(sum(logs) / len(logs)) if logs else None


def _left_out(shape: TimedShape, others: Sequence[TimedShape], names: Sequence[str]) -> float | None:
    """Return the logarithm of the time lost at a shape by a choice that knows the others alone."""
    predicted = TimeModel(others, names).at([shape.sizes], lambda name, _: name in shape.times)
    if not predicted:
        return None
    chosen = min(predicted[0].times, key=predicted[0].times.__getitem__)
    return math.log(shape.times[chosen] / min(shape.times.values()))


def _expected_loss(gap: float, deviation: float) -> float:
    """Return the mean of what is above 0 of a normal variable with a mean of `-gap`."""
    at = gap / deviation
    return deviation * _NORMAL.pdf(at) - gap * (1.0 - _NORMAL.cdf(at))
