"""Statistics of paired samples: how much slower one side is than the other, and how sure that is.

Times of kernels have heavy upper tails (an interrupt, a clock that drops), so means are trimmed; candidate and pacer
are timed side by side, so that what slows both cancels in the logarithm of their ratio.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, floor, sqrt
from statistics import NormalDist, fmean

TRIMMED = 0.2
"""Share of the samples left out at either end (evaluation protocol, Yuen's trimmed mean)."""
CONFIDENCE = 0.95
"""Confidence of two-sided intervals."""
FEWEST = 4
"""Samples below which there is no interval."""


@dataclass(frozen=True)
class Estimate:
    """A mean of logarithms of ratios.

    Attributes:
        mean: The 20 % trimmed mean.
        error: Its standard error.
        freedom: Degrees of freedom of the error.
    """

    mean: float
    error: float
    freedom: int

    def bounds(self, confidence: float = CONFIDENCE) -> tuple[float, float, float]:
        """Low, middle and high of the ratio itself."""
        half = student_quantile((1 + confidence) / 2, self.freedom) * self.error
        return exp(self.mean - half), exp(self.mean), exp(self.mean + half)


def estimate(logs: Sequence[float]) -> Estimate:
    """Trimmed mean of logarithms with its standard error from the winsorised variance (Yuen 1974).

    Raises:
        ValueError: If there are fewer than `FEWEST` values.
    """
    count = len(logs)
    if count < FEWEST:
        raise ValueError(f"{count} samples are too few for an interval; {FEWEST} are the least")
    cut = floor(TRIMMED * count)
    ordered = sorted(logs)
    kept = ordered[cut : count - cut]
    winsorised = [kept[0]] * cut + kept + [kept[-1]] * cut
    centre = fmean(winsorised)
    spread = sum((value - centre) ** 2 for value in winsorised)
    error = sqrt(spread / (len(kept) * (len(kept) - 1)))
    return Estimate(fmean(kept), error, len(kept) - 1)


def weighted(parts: Sequence[Estimate], weights: Sequence[float]) -> Estimate:
    """The weighted mean of independent estimates: the logarithm of a weighted geometric mean, bounded jointly.

    Variances add; the degrees of freedom are those of the least certain part, which errs on the wide side.
    """
    total = sum(weights)
    shares = [weight / total for weight in weights]
    mean = sum(share * part.mean for share, part in zip(shares, parts, strict=True))
    variance = sum((share * part.error) ** 2 for share, part in zip(shares, parts, strict=True))
    return Estimate(mean, sqrt(variance), min(part.freedom for part in parts))


def student_quantile(probability: float, freedom: int) -> float:
    """Quantile of Student's t by its expansion around the normal one; within 1 % from three degrees of freedom on.

    Source: Abramowitz and Stegun, 26.7.5.
    """
    z = NormalDist().inv_cdf(probability)
    v = float(freedom)
    return (
        z
        + (z**3 + z) / (4 * v)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * v**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * v**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * v**4)
    )
