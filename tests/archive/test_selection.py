"""Selection reaches every cell, and curiosity those that were parents least."""

import random
from collections import Counter
from datetime import UTC, datetime

from archive.policies import CellContext
from archive.records import EliteRecord, PinRecord
from archive.selection import SHARES, preferred, select

DRAWS = 4000


def elite(cell: int) -> EliteRecord:
    return EliteRecord(
        search="s",
        device="model:sm_90",
        axes_version=1,
        cell=cell,
        coordinates={},
        candidate=f"candidate {cell}",
        variant=0,
        bundle="b",
        job="j",
        emitter="tune",
        objective=1.0 + cell,
        low=1.0,
        mid=1.0,
        high=1.0,
        revision=1,
        placed_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


ELITES = [elite(cell) for cell in (0, 3, 5, 8)]


def test_nothing_to_select_from_an_empty_archive() -> None:
    assert select([], random.Random(0)) is None


def test_policies_get_their_shares() -> None:
    rng, around = random.Random(3), CellContext({0: 99, 3: 99, 8: 99})
    drawn = Counter(choice.parent.cell for _ in range(DRAWS) if (choice := select(ELITES, rng, around)))
    # Half of 1/4 and half of 10/13.
    assert 0.45 < drawn[5] / DRAWS < 0.57
    assert sum(SHARES.values()) == 1
    only = [select(ELITES, rng, around, shares={"optimistic": 1.0}) for _ in range(20)]
    assert {choice.parent.cell for choice in only if choice} == {5}


def test_the_same_seed_selects_the_same() -> None:
    around = CellContext({0: 3})
    first = [select(ELITES, random.Random(seed), around) for seed in range(20)]
    assert first == [select(ELITES, random.Random(seed), around) for seed in range(20)]


def test_holders_of_pinned_cells_and_pinned_candidates_are_preferred() -> None:
    pins = [
        PinRecord("p", "s", "d", ELITES[0].cell, None),
        PinRecord("q", "s", "d", None, ELITES[2].candidate),
        PinRecord("r", "s", "d", 10_000, None),
        PinRecord("t", "s", "d", None, "gone"),
    ]
    held = {elite.candidate for elite in (ELITES[0], ELITES[2])}
    assert {elite.candidate for elite in preferred(ELITES, pins)} >= held
    assert [elite.cell for elite in preferred(ELITES, pins[:1])] == [ELITES[0].cell]
    assert preferred(ELITES, pins[2:]) == []


def test_pinned_elites_get_their_share() -> None:
    rng = random.Random(5)
    pinned = [ELITES[1]]
    drawn = Counter(choice.parent.cell for _ in range(DRAWS) if (choice := select(ELITES, rng, pinned=pinned)))
    # Half, and a quarter of the other half.
    assert 0.57 < drawn[ELITES[1].cell] / DRAWS < 0.68
    assert len(drawn) == len(ELITES)
