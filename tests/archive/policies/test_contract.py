"""Every policy keeps the contract of its socket."""

import random

import pytest

from archive.grid import Grid
from archive.policies import POLICIES, CellContext, SelectionPolicy
from archive.records import AxisRecord, SelectableElite

GRID = Grid([AxisRecord("a", 3), AxisRecord("b", 4)])
ELITES = [SelectableElite(cell, f"candidate {cell}", 0, "b", 1.0 + cell / 10, 0) for cell in (0, 1, 5, 10)]
EVERYWHERE = [SelectableElite(cell, f"candidate {cell}", 0, "b", 1.0, 0) for cell in range(GRID.cells)]
AROUND = [CellContext(), CellContext({0: 7, 5: 1}), CellContext({1: 2}, GRID)]

every_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)


@every_policy
def test_it_is_in_the_table_under_its_name_and_says_what_it_does(policy: SelectionPolicy) -> None:
    assert POLICIES[policy.name] is policy
    assert policy.meaning


@every_policy
@pytest.mark.parametrize("around", AROUND)
def test_it_chooses_an_elite_and_depends_on_chance_alone(policy: SelectionPolicy, around: CellContext) -> None:
    for elites in (ELITES, ELITES[:1], EVERYWHERE):
        first = [policy.choose(elites, around, random.Random(seed)) for seed in range(20)]
        assert first == [policy.choose(elites, around, random.Random(seed)) for seed in range(20)]
        assert all(choice.parent in elites for choice in first)


@every_policy
def test_what_it_aims_at_is_an_empty_cell_beside_the_parent(policy: SelectionPolicy) -> None:
    for seed in range(50):
        choice = policy.choose(ELITES, CellContext({}, GRID), random.Random(seed))
        if choice.aim is not None:
            assert choice.aim not in {elite.cell for elite in ELITES}
            assert choice.aim in GRID.neighbours(choice.parent.cell)
    assert policy.choose(EVERYWHERE, CellContext({}, GRID), random.Random(0)).aim is None
