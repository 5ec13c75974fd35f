"""Selection of the elites that become parents: often a pinned one, otherwise by one of the policies."""

import random
from collections.abc import Collection, Mapping, Sequence

from archive.policies import POLICIES, CellContext, Held, ParentChoice
from archive.records import PinRecord

SHARES: Mapping[str, float] = {"curious": 0.5, "uniform": 0.5}
"""Weights of the policies in `select`. Our choice: every cell keeps half of its probability under `uniform`."""

NOTHING_KNOWN = CellContext()

PINNED_SHARE = 0.5
"""Share of selections that take a pinned elite, if there is one. Our choice: pinned elites get half of the
search, and the rest of the archive is still explored."""


def preferred(elites: Sequence[Held], pins: Collection[PinRecord]) -> list[Held]:
    """Return the pinned elites: those of pinned cells, and pinned candidates that hold a cell."""
    cells = {pin.cell for pin in pins if pin.cell is not None}
    candidates = {pin.candidate for pin in pins if pin.candidate is not None}
    return [elite for elite in elites if elite.cell in cells or elite.candidate in candidates]


def select(
    elites: Sequence[Held],
    rng: random.Random,
    around: CellContext = NOTHING_KNOWN,
    pinned: Sequence[Held] = (),
    shares: Mapping[str, float] = SHARES,
) -> ParentChoice[Held] | None:
    """Select a parent: often a pinned one, otherwise by a policy drawn by its share.

    None while no cell is filled.
    """
    if not elites:
        return None
    if pinned and rng.random() < PINNED_SHARE:
        return ParentChoice(rng.choice(pinned))
    (name,) = rng.choices(list(shares), list(shares.values()))
    return POLICIES[name].choose(elites, around, rng)
