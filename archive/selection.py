"""Selection: which elites become parents. Policies are pure functions of the elites and a source of chance."""

import random
from collections.abc import Mapping, Sequence
from math import sqrt

from archive.records import Elite

CURIOUS_SHARE = 0.5
"""How often `select` asks the curious policy. Our choice: every cell keeps half of its uniform chance."""


def uniform(elites: Sequence[Elite], rng: random.Random) -> Elite:
    """Every filled cell alike, as the first MAP-Elites does (Mouret and Clune 2015)."""
    return rng.choice(elites)


def curious(elites: Sequence[Elite], visits: Mapping[int, int], rng: random.Random) -> Elite:
    """Cells that were parents rarely come first: weight 1 / sqrt(visits + 1), as in Go-Explore (Ecoffet et al. 2021).

    Args:
        elites: At least one.
        visits: By cell, how often its present holder was a parent; a cell left out counts as never visited.
        rng: The only source of chance.
    """
    weights = [1 / sqrt(visits.get(elite.cell, 0) + 1) for elite in elites]
    return rng.choices(elites, weights)[0]


def select(elites: Sequence[Elite], rng: random.Random, visits: Mapping[int, int] | None = None) -> Elite | None:
    """A parent: drawn uniformly, or out of curiosity where visits are known. None while no cell is filled."""
    if not elites:
        return None
    if visits is not None and rng.random() < CURIOUS_SHARE:
        return curious(elites, visits, rng)
    return uniform(elites, rng)
