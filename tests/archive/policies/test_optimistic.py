import random

from archive.policies import CellContext
from archive.policies.optimistic import Optimistic
from tests.archive.policies.test_contract import ELITES, EVERYWHERE


def chosen(elites, visits, seed=0):
    return Optimistic().choose(elites, CellContext(visits), random.Random(seed)).parent.cell


def test_the_best_comes_first_where_all_are_known_alike() -> None:
    assert chosen(ELITES, {}) == chosen(ELITES, dict.fromkeys((0, 1, 5, 10), 9)) == 10


def test_what_is_hardly_known_comes_before_what_is_well_known() -> None:
    assert chosen(ELITES, {10: 200, 5: 200, 1: 200}) == 0


def test_ties_are_drawn() -> None:
    assert len({chosen(EVERYWHERE, {}, seed) for seed in range(100)}) > len(EVERYWHERE) // 2
