"""Selection reaches every cell, and curiosity those that were parents least."""

import random
from collections import Counter

from archive.records import PinRecord, SelectableElite
from archive.selection import preferred, select

DRAWS = 4000


ELITES = [SelectableElite(cell, f"candidate {cell}", 0, "b", 1.0 + cell, 0) for cell in (0, 3, 5, 8)]


def test_nothing_to_select_from_an_empty_archive() -> None:
    assert select([], random.Random(0)) is None


def test_cells_are_treated_alike_while_all_were_parents_as_often() -> None:
    rng = random.Random(1)
    drawn = Counter(elite.cell for _ in range(DRAWS) if (elite := select(ELITES, rng, dict.fromkeys((0, 3, 5, 8), 7))))
    assert len(drawn) == len(ELITES)
    assert max(drawn.values()) < 1.3 * min(drawn.values())


def test_half_of_the_choices_go_where_few_have_been() -> None:
    rng = random.Random(3)
    drawn = Counter(elite.cell for _ in range(DRAWS) if (elite := select(ELITES, rng, {0: 99, 3: 99, 8: 99})))
    # Half of 1/4 and half of 10/13.
    assert 0.45 < drawn[5] / DRAWS < 0.57


def test_the_same_seed_selects_the_same() -> None:
    first = [select(ELITES, random.Random(seed), {0: 3}) for seed in range(20)]
    assert first == [select(ELITES, random.Random(seed), {0: 3}) for seed in range(20)]


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
    drawn = Counter(elite.cell for _ in range(DRAWS) if (elite := select(ELITES, rng, pinned=pinned)))
    # Half, and a quarter of the other half.
    assert 0.57 < drawn[ELITES[1].cell] / DRAWS < 0.68
    assert len(drawn) == len(ELITES)
