"""Every filled cell alike."""

import random
from collections.abc import Sequence

from archive.policies.base import Choice, Held, Policy, Surroundings


class Uniform(Policy):
    """As the first MAP-Elites does (Mouret and Clune 2015)."""

    name = "uniform"
    meaning = "every filled cell alike"

    def choose(self, elites: Sequence[Held], around: Surroundings, rng: random.Random) -> Choice[Held]:
        """Any of them."""
        return Choice(rng.choice(elites))
