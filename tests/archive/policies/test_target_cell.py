import random

from archive.policies import CellContext
from archive.policies.target_cell import TargetCell
from tests.archive.policies.test_contract import ELITES, GRID


def test_every_empty_neighbour_is_aimed_at_from_the_best_beside_it() -> None:
    filled = {elite.cell: elite for elite in ELITES}
    choices = [TargetCell().choose(ELITES, CellContext({}, GRID), random.Random(seed)) for seed in range(300)]
    assert {choice.aim for choice in choices} == {near for cell in filled for near in GRID.neighbours(cell)} - set(
        filled
    )
    for choice in choices:
        beside = [filled[cell] for cell in GRID.neighbours(choice.aim) if cell in filled]
        assert choice.parent.objective == max(elite.objective for elite in beside)


def test_without_a_grid_it_aims_at_nothing() -> None:
    assert TargetCell().choose(ELITES, CellContext(), random.Random(0)).aim is None
