"""The bandit: what is tried next, by the improvement that each choice brought for its cost.

One rule for emitters, for rules within `rewrite` and for strategies within `llm`. It is a pure function of what the
archive holds and of a source of chance, so that a killed search goes on as it would have.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

Arm = TypeVar("Arm")

PRIOR = 1.0
"""Weight of what is assumed of an arm before it was tried, in tries: one try's worth of the average arm."""
FLOOR = 0.05
"""Share of turns that every arm keeps whatever came of it. Our choice: with five arms three quarters follow the
evidence, and an arm that begins to pay after a change of parents is seen within some twenty turns."""
CROWD = 0.5
"""Most turns that go to floors, where there are many arms."""
ROUNDS = 400
"""Draws by which shares are told: they are right to about 2%."""


@dataclass(frozen=True)
class ArmStats:
    """What came of one arm.

    Attributes:
        tries: How often it was tried.
        cost: What these cost, in a unit that all arms share.
        promotions: Cells that they won.
        gain: Objective that they added to the archive.
    """

    tries: int = 0
    cost: float = 0.0
    promotions: int = 0
    gain: float = 0.0


def draw(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm], rng: random.Random) -> Arm:
    """The arm to try now; `llm_stats` has at least one."""
    return ranked(accounts, arms, rng)[0]


def ranked(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm], rng: random.Random) -> list[Arm]:
    """All arms in the order to try them: by Thompson sampling of promoted gain per cost, or in any order for the floor.

    How often a try is promoted is drawn from its Beta posterior; gain per promotion and cost per try are means, with
    one try's worth of the mean over all arms lent to each.

    Args:
        accounts: What came of arms; one that is missing was never tried.
        llm_stats: To choose from.
        rng: The only source of chance.
    """
    if rng.random() < min(CROWD, FLOOR * len(arms)):
        return rng.sample(list(arms), len(arms))
    gain, cost = _means(list(accounts.values()))
    samples = [_sample(accounts.get(arm, ArmStats()), gain, cost, rng) for arm in arms]
    order = sorted(range(len(arms)), key=lambda place: -samples[place])
    return [arms[place] for place in order]


def shares(accounts: Mapping[Arm, ArmStats], arms: Sequence[Arm]) -> dict[Arm, float]:
    """How often each arm would be tried next, 0 to 1."""
    rng = random.Random(0)
    drawn = [draw(accounts, arms, rng) for _ in range(ROUNDS)] if arms else []
    return {arm: drawn.count(arm) / ROUNDS for arm in arms}


def _means(accounts: Sequence[ArmStats]) -> tuple[float, float]:
    """Gain of a promotion and cost of a try, over all arms; 1 where nothing is known."""
    tries, promotions = sum(item.tries for item in accounts), sum(item.promotions for item in accounts)
    gain = sum(item.gain for item in accounts) / promotions if promotions else 1.0
    return gain, sum(item.cost for item in accounts) / tries if tries else 1.0


def _sample(account: ArmStats, gain: float, cost: float, rng: random.Random) -> float:
    hits = min(account.promotions, account.tries)
    share = rng.betavariate(1 + hits, 1 + account.tries - hits)
    gained = (account.gain + PRIOR * gain) / (account.promotions + PRIOR)
    paid = (account.cost + PRIOR * cost) / (account.tries + PRIOR)
    return share * gained / paid if paid > 0 else share * gained
