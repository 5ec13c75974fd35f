import random
from collections import Counter

import pytest

from service.emitters.base import StrategyRecord
from service.emitters.llm.strategies import STRATEGIES, approach, draw, parents_for
from tests.service.emitters.talks import context

ARMS = [("a", "improve"), ("a", "scratch"), ("b", "improve"), ("b", "scratch")]


def drawn(records, times=400, arms=ARMS):
    rng = random.Random(1)
    return Counter(draw(records, arms, rng) for _ in range(times))


def test_untried_arms_are_drawn_alike():
    assert all(60 < count < 140 for count in drawn(()).values())


def test_an_arm_that_gains_more_for_its_cost_is_drawn_more_often():
    records = [
        StrategyRecord("a", "improve", calls=50, cost=1.0, promotions=10, gain=2.0),
        StrategyRecord("a", "scratch", calls=50, cost=50.0, promotions=10, gain=2.0),
        StrategyRecord("b", "improve", calls=50, cost=1.0, promotions=0, gain=0.0),
        StrategyRecord("b", "scratch", calls=50, cost=1.0, promotions=10, gain=0.02),
    ]
    counts = drawn(records)
    assert counts[ARMS[0]] > 300 and counts[ARMS[1]] < 40


def test_an_arm_that_never_gained_keeps_a_small_chance():
    records = [StrategyRecord("a", "improve", 20, 20.0, 0, 0.0), StrategyRecord("b", "improve", 20, 20.0, 6, 0.6)]
    counts = drawn(records, 2000, [("a", "improve"), ("b", "improve")])
    assert 0 < counts[("a", "improve")] < counts[("b", "improve")]


def test_costs_and_gains_of_nothing_are_no_trouble():
    assert draw([StrategyRecord("a", "improve", 3, 0.0, 0, 0.0)], ARMS, random.Random(0)) in ARMS
    assert draw([StrategyRecord("a", "improve", 1, 0.0, 5, 0.0)], ARMS, random.Random(0)) in ARMS


def test_equal_chance_draws_equally():
    assert draw((), ARMS, random.Random(4)) == draw((), ARMS, random.Random(4))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_each_strategy_says_what_it_works_on(strategy):
    known = context(strategies=(strategy,))
    found = approach(known, known.llm)
    assert found.strategy == strategy and found.backend == "script"
    ids = [parent.candidate for parent in found.parents]
    expected = {
        "scratch": [],
        "explore": ["candidate-3"],
        "cross": ["candidate-1", "candidate-2"],
        "repair": ["candidate-9"],
    }
    assert ids == expected.get(strategy, ["candidate-1"])
    assert found.cell == (18 if strategy == "explore" else None)


@pytest.mark.parametrize(
    "strategy, lacking", [("explore", {"cell": None}), ("repair", {"broken": None}), ("improve", {"backends": ()})]
)
def test_what_is_not_possible_is_not_tried(strategy, lacking):
    known = context(strategies=(strategy,), **lacking)
    assert approach(known, known.llm) is None


def test_one_kernel_cannot_be_crossed():
    known = context(strategies=("cross",))
    twins = context(strategies=("cross",), parents=known.parents[:1] * 2)
    assert parents_for("cross", twins, twins.llm) is None


def test_what_was_begun_goes_on():
    known = context(begun=("other", "repair"), cell=None)
    found = approach(known, known.llm)
    assert (found.backend, found.strategy, found.parents) == ("other", "repair", known.parents)
