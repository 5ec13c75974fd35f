"""Preference for the elite with the largest upper confidence bound."""

import random
from collections.abc import Sequence
from math import log, sqrt

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy

BREADTH = 0.5
"""Weight of the exploration bonus, beside an objective scaled to 0..1. UCB1 takes sqrt(2) for rewards that are random
at each draw. An elite's objective is not random, so less is enough."""


class Optimistic(SelectionPolicy):
    """Objective plus a bonus for few visits, as UCB1 bounds it (Auer et al. 2002); ties are broken at random."""

    name = "optimistic"
    meaning = "good elites, and those of which little is known: the largest upper bound comes first"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Return the elite with the largest bound."""
        low, high = min(elite.objective for elite in elites), max(elite.objective for elite in elites)
        spread = high - low or 1.0
        visits = [around.visits.get(elite.cell, 0) for elite in elites]
        unknown = log(sum(visits) + len(elites) + 1)
        bounds = [
            (elite.objective - low) / spread + BREADTH * sqrt(unknown / (count + 1))
            for elite, count in zip(elites, visits, strict=True)
        ]
        most = max(bounds)
        return ParentChoice(rng.choice([elite for elite, bound in zip(elites, bounds, strict=True) if bound == most]))
