"""Bandit: chooses what to try next, by the gain that each choice brought for its cost.

It serves emitters, rules within `rewrite` and strategies within `llm`. It is a pure function of the archive's contents
and a random generator, so that a killed search continues exactly as it would have.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Arm = TypeVar("Arm")

PRIOR = 1.0
"""Weight of the prior of an arm, in tries: one try of the average arm."""
FLOOR = 0.05
"""Minimum share of turns of every arm. Our choice: with five arms three quarters follow the evidence, and an arm that
starts to pay after a change of parents is noticed within some twenty turns."""
CROWD = 0.5
"""Maximum share of turns that all floors take together, if there are many arms."""
ROUNDS = 400
"""Draws for an estimate of the shares, which is right to about 2%."""


@dataclass(frozen=True)
class ArmStats:
    """Statistics of one arm.

    Attributes:
        tries: Number of tries.
        cost: Their cost, in a unit that all arms share.
        promotions: Number of cells that they won.
        gain: Objective that they added to the archive.
    """

    tries: int = 0
    cost: float = 0.0
    promotions: int = 0
    gain: float = 0.0


def draw(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm], rng: random.Random) -> Arm:
    """Choose the arm to try now; `arms` has at least one."""
    return ranked(accounts, arms, rng)[0]


def ranked(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm], rng: random.Random) -> list[Arm]:
    """Order all arms by Thompson sampling of promoted gain per cost, or at random for the floor.

    The promotion rate is drawn from its Beta posterior. Gain per promotion and cost per try are means that include one
    try of the mean over all arms.

    Args:
        accounts: Statistics by arm; a missing arm was never tried.
        arms: Arms to order.
        rng: The only source of randomness.
    """
    if rng.random() < min(CROWD, FLOOR * len(arms)):
        return rng.sample(list(arms), len(arms))
    gain, cost = _means(list(accounts.values()))
    samples = [_sample(accounts.get(arm, ArmStats()), gain, cost, rng) for arm in arms]
    order = sorted(range(len(arms)), key=lambda place: -samples[place])
    return [arms[place] for place in order]


def shares(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm]) -> dict[Arm, float]:
    """Estimate the probability that each arm is tried next, 0 to 1."""
    rng = random.Random(0)
    drawn = [draw(accounts, arms, rng) for _ in range(ROUNDS)] if arms else []
    return {arm: drawn.count(arm) / ROUNDS for arm in arms}


def _means(accounts: Sequence[ArmStats]) -> tuple[float, float]:
    """Return gain per promotion and cost per try over all arms; 1 if unknown."""
    tries, promotions = sum(item.tries for item in accounts), sum(item.promotions for item in accounts)
    gain = sum(item.gain for item in accounts) / promotions if promotions else 1.0
    return gain, sum(item.cost for item in accounts) / tries if tries else 1.0


def _sample(account: ArmStats, gain: float, cost: float, rng: random.Random) -> float:
    hits = min(account.promotions, account.tries)
    share = rng.betavariate(1 + hits, 1 + account.tries - hits)
    gained = (account.gain + PRIOR * gain) / (account.promotions + PRIOR)
    paid = (account.cost + PRIOR * cost) / (account.tries + PRIOR)
    return share * gained / paid if paid > 0 else share * gained
