"""Credit: what an entry of knowledge is worth, and when it no longer pays.

Every pair that an entry's move made and every proposal whose prompt carried it is one trial. Of trials that are alike
the share that gains has, before any is seen, a uniform distribution; after `gains` of `trials` its mean is
`(gains + 1) / (trials + 2)` (Laplace's rule of succession, the mean of a Beta posterior).
"""

from math import log

PAYS = 0.05
"""Least expected share of gains. Our choice: below one in twenty a proposal is better spent on chance."""
TRIALS = 20
"""Trials before an entry can retire: of twenty without a gain the expected share is 0.045, just below `PAYS`."""
ASSUMED_GAIN = 1.05
"""Gain that is assumed of what a person wrote down and nobody tried yet."""


def share(gains: int, trials: int) -> float:
    """Expected share of further trials that will gain, between 0 and 1."""
    return (gains + 1) / (trials + 2)


def pays(gains: int, trials: int) -> bool:
    """Whether an entry is still worth a place in a prompt."""
    return trials < TRIALS or share(gains, trials) >= PAYS


def worth(gains: int, trials: int, low: float | None) -> float:
    """Expected logarithm of the gain of one more trial, by the lower bound of the best gain seen (None: not tried)."""
    return share(gains, trials) * log(max(1.0, ASSUMED_GAIN if low is None else low))
