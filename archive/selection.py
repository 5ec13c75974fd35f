"""Selection: which elites become parents. Policies are pure functions of the elites and a source of chance."""

import random
from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from typing import TypeVar

from archive.records import Elite, Holder, Pin

Held = TypeVar("Held", Elite, Holder)
"""The holder of a cell, whole or as much of it as matters here."""

CURIOUS_SHARE = 0.5
"""How often `select` asks the curious policy. Our choice: every cell keeps half of its uniform chance."""

PINNED_SHARE = 0.5
"""How often `select` takes a pinned elite where there are some. Our choice: what people point at gets half of the
search, and the rest of the archive stays in play."""


def uniform(elites: Sequence[Held], rng: random.Random) -> Held:
    """Every filled cell alike, as the first MAP-Elites does (Mouret and Clune 2015)."""
    return rng.choice(elites)


def curious(elites: Sequence[Held], visits: Mapping[int, int], rng: random.Random) -> Held:
    """Cells that were parents rarely come first: weight 1 / sqrt(visits + 1), as in Go-Explore (Ecoffet et al. 2021).

    Args:
        elites: At least one.
        visits: By cell, how often its present holder was a parent; a cell left out counts as never visited.
        rng: The only source of chance.
    """
    weights = [1 / sqrt(visits.get(elite.cell, 0) + 1) for elite in elites]
    return rng.choices(elites, weights)[0]


def preferred(elites: Sequence[Held], pins: Collection[Pin]) -> list[Held]:
    """The elites that people pinned: holders of pinned cells, and pinned candidates wherever they hold one."""
    cells = {pin.cell for pin in pins if pin.cell is not None}
    candidates = {pin.candidate for pin in pins if pin.candidate is not None}
    return [elite for elite in elites if elite.cell in cells or elite.candidate in candidates]


def select(
    elites: Sequence[Held],
    rng: random.Random,
    visits: Mapping[int, int] | None = None,
    pinned: Sequence[Held] = (),
) -> Held | None:
    """A parent: often a pinned one, else drawn uniformly, or out of curiosity where visits are known.

    None while no cell is filled.
    """
    if not elites:
        return None
    if pinned and rng.random() < PINNED_SHARE:
        return uniform(pinned, rng)
    if visits is not None and rng.random() < CURIOUS_SHARE:
        return curious(elites, visits, rng)
    return uniform(elites, rng)
