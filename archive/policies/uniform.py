"""Every filled cell alike."""

import random
from collections.abc import Sequence

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy


class Uniform(SelectionPolicy):
    """As the first MAP-Elites does (Mouret and Clune 2015)."""

    name = "uniform"
    meaning = "every filled cell alike"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Any of them."""
        return ParentChoice(rng.choice(elites))
