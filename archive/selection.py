"""Selection of the elites that become parents: often a pinned one, otherwise any, or one that was a parent rarely."""

import random
from collections.abc import Collection, Mapping, Sequence
from math import sqrt
from types import MappingProxyType
from typing import TypeVar

from archive.records import EliteRecord, PinRecord, ProvisionalRecord, SelectableElite

Held = TypeVar("Held", EliteRecord, ProvisionalRecord, SelectableElite)
"""Holder of a cell."""

CURIOUS_SHARE = 0.5
"""Share of selections that prefer elites which were parents rarely. Our choice: every cell keeps half of its equal
probability."""

PINNED_SHARE = 0.5
"""Share of selections that take a pinned elite, if there is one. Our choice: pinned elites get half of the
search, and the rest of the archive is still explored."""

NO_VISITS: Mapping[int, int] = MappingProxyType({})


def preferred(elites: Sequence[Held], pins: Collection[PinRecord]) -> list[Held]:
    """Return the pinned elites: those of pinned cells, and pinned candidates that hold a cell."""
    cells = {pin.cell for pin in pins if pin.cell is not None}
    candidates = {pin.candidate for pin in pins if pin.candidate is not None}
    return [elite for elite in elites if elite.cell in cells or elite.candidate in candidates]


def select(
    elites: Sequence[SelectableElite],
    rng: random.Random,
    visits: Mapping[int, int] = NO_VISITS,
    pinned: Sequence[SelectableElite] = (),
) -> SelectableElite | None:
    """Select a parent: often a pinned one; otherwise half of the time each elite alike (Mouret and Clune 2015).

    The other half weighs each by 1 / sqrt(visits + 1), as in Go-Explore (Ecoffet et al. 2021).

    Args:
        elites: Holders of cells.
        rng: Source of chance.
        visits: Number of times that a cell's present holder was a parent, by cell; a missing cell has none.
        pinned: Those of the elites that are pinned.

    Returns:
        The parent; None while no cell is filled.
    """
    if not elites:
        return None
    if pinned and rng.random() < PINNED_SHARE:
        return rng.choice(pinned)
    if rng.random() < CURIOUS_SHARE:
        return rng.choices(elites, [1 / sqrt(visits.get(elite.cell, 0) + 1) for elite in elites])[0]
    return rng.choice(elites)
