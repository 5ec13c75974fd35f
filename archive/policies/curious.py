"""Cells first that were parents rarely."""

import random
from collections.abc import Sequence
from math import sqrt

from archive.policies.base import Choice, Held, Policy, Surroundings


class Curious(Policy):
    """Weight 1 / sqrt(visits + 1), as in Go-Explore (Ecoffet et al. 2021)."""

    name = "curious"
    meaning = "cells whose holders were parents rarely come first"

    def choose(self, elites: Sequence[Held], around: Surroundings, rng: random.Random) -> Choice[Held]:
        """Draw by weight."""
        weights = [1 / sqrt(around.visits.get(elite.cell, 0) + 1) for elite in elites]
        return Choice(rng.choices(elites, weights)[0])
