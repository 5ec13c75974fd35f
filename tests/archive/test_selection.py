"""Selection reaches every cell, and curiosity those that were parents least."""

import random
from collections import Counter
from datetime import UTC, datetime

from archive.records import Elite, Pin
from archive.selection import curious, preferred, select, uniform

DRAWS = 4000


def elite(cell: int) -> Elite:
    return Elite(
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


def test_uniform_treats_cells_alike() -> None:
    rng = random.Random(1)
    drawn = Counter(uniform(ELITES, rng).cell for _ in range(DRAWS))
    assert set(drawn) == {0, 3, 5, 8}
    assert max(drawn.values()) < 1.3 * min(drawn.values())


def test_curious_goes_where_few_have_been() -> None:
    rng = random.Random(2)
    drawn = Counter(curious(ELITES, {0: 99, 3: 99, 8: 99}, rng).cell for _ in range(DRAWS))
    # Weights are 1/10, 1/10, 1 and 1/10.
    assert 0.7 < drawn[5] / DRAWS < 0.84


def test_select_mixes_both_where_visits_are_known() -> None:
    rng = random.Random(3)
    drawn = Counter(elite.cell for _ in range(DRAWS) if (elite := select(ELITES, rng, {0: 99, 3: 99, 8: 99})))
    # Half of 1/4 and half of 10/13.
    assert 0.45 < drawn[5] / DRAWS < 0.57


def test_select_is_uniform_where_visits_are_unknown() -> None:
    assert select(ELITES, random.Random(4)) == uniform(ELITES, random.Random(4))


def test_the_same_seed_selects_the_same() -> None:
    visits = {0: 3}
    first = [select(ELITES, random.Random(seed), visits) for seed in range(20)]
    assert first == [select(ELITES, random.Random(seed), visits) for seed in range(20)]


def test_holders_of_pinned_cells_and_pinned_candidates_are_preferred() -> None:
    pins = [
        Pin("p", "s", "d", ELITES[0].cell, None),
        Pin("q", "s", "d", None, ELITES[2].candidate),
        Pin("r", "s", "d", 10_000, None),
        Pin("t", "s", "d", None, "gone"),
    ]
    held = {elite.candidate for elite in (ELITES[0], ELITES[2])}
    assert {elite.candidate for elite in preferred(ELITES, pins)} >= held
    assert [elite.cell for elite in preferred(ELITES, pins[:1])] == [ELITES[0].cell]
    assert preferred(ELITES, pins[2:]) == []


def test_pinned_elites_get_their_share() -> None:
    rng = random.Random(5)
    drawn = Counter(elite.cell for _ in range(DRAWS) if (elite := select(ELITES, rng, None, [ELITES[1]])))
    # Half, and a quarter of the other half.
    assert 0.57 < drawn[ELITES[1].cell] / DRAWS < 0.68
    assert len(drawn) == len(ELITES)


def test_without_pins_nothing_changes() -> None:
    visits = {0: 3}
    for seed in range(20):
        assert select(ELITES, random.Random(seed), visits, []) == select(ELITES, random.Random(seed), visits)
