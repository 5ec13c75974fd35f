"""Equal probability for every filled cell."""

import random
from collections.abc import Sequence

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy


class Uniform(SelectionPolicy):
    """Uniform selection, as in the first MAP-Elites (Mouret and Clune 2015)."""

    name = "uniform"
    meaning = "every filled cell alike"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Choose an elite at random."""
        return ParentChoice(rng.choice(elites))
