"""Preference for cells whose holders were rarely parents."""

import random
from collections.abc import Sequence
from math import sqrt

from archive.policies.base import CellContext, Held, ParentChoice, SelectionPolicy


class Curious(SelectionPolicy):
    """Weight 1 / sqrt(visits + 1), as in Go-Explore (Ecoffet et al. 2021)."""

    name = "curious"
    meaning = "cells whose holders were parents rarely come first"

    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Draw by weight."""
        weights = [1 / sqrt(around.visits.get(elite.cell, 0) + 1) for elite in elites]
        return ParentChoice(rng.choices(elites, weights)[0])
