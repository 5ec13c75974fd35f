"""A search on a card whose candidates are its seeds: each comes to a bundle, and a cell, that the test knows.

Emitters find nothing to change about these seeds, so a search ends when they are judged.
"""

import pytest

from archive.records import EliteRecord, PlacementRecord, SearchRecord
from tests.service import records
from tests.service.workbench import Workbench

DEVICE = "h200"
FIRST, SECOND = 10, 15
"""Sizes of two seeds that lie in one cell."""


def seed(size: int) -> str:
    """A seed; those whose sizes differ by a multiple of five lie in the same cell."""
    return f"NAME = '{'x' * size}'\n\n\ndef double(x):\n    return x\n"


def identity(size: int) -> str:
    """The bundle of the seed of a size."""
    return records.bundle_from(seed(size)).identity


def plant(monkeypatch: pytest.MonkeyPatch, *sizes: int) -> None:
    """Have the operator bring seeds of these sizes, in this order."""
    seeds = tuple(seed(size) for size in sizes)
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": seeds}))


async def elites(bench: Workbench, search: SearchRecord) -> list[EliteRecord]:
    """Who holds what."""
    return await bench.store.elites.list(search.id, DEVICE, search.axes_version)


async def history(bench: Workbench, search: SearchRecord) -> list[PlacementRecord]:
    """Offers, oldest first."""
    return (await bench.store.elites.history(search.id, DEVICE))[::-1]


async def outcomes(bench: Workbench, search: SearchRecord) -> list[str | None]:
    """What became of the seeds, in their order."""
    return [candidate.outcome for candidate in (await bench.store.candidates.list(search.id))[::-1]]
