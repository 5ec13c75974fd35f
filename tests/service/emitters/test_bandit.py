"""The bandit: what brings more for its cost is tried more, and nothing starves."""

import random
from collections import Counter

from service.emitters.bandit import FLOOR, ArmStats, draw, ranked, shares

ARMS = ("tune", "rewrite", "cross")


def drawn(accounts, arms=ARMS, times=2000):
    rng = random.Random(1)
    return Counter(draw(accounts, arms, rng) for _ in range(times))


def test_what_nobody_tried_is_tried_alike():
    assert all(0.27 < count / 2000 < 0.4 for count in drawn({}).values())


def test_what_gains_more_for_its_cost_gets_the_turns():
    even = {
        "tune": ArmStats(40, 40.0, 8, 4.0),
        "rewrite": ArmStats(40, 40.0, 8, 0.4),
        "cross": ArmStats(40, 400.0, 8, 4.0),
    }
    counts = drawn(even)
    assert counts["tune"] > 1600
    assert counts["rewrite"] < 250 and counts["cross"] < 250


def test_nothing_starves():
    hopeless = {"tune": ArmStats(60, 60.0, 40, 40.0), "rewrite": ArmStats(60, 60.0), "cross": ArmStats(60, 60.0)}
    assert min(drawn(hopeless).values()) / 2000 > FLOOR / 2


def test_an_order_has_every_arm_once():
    assert sorted(ranked({}, ARMS, random.Random(3))) == sorted(ARMS)


def test_equal_chance_draws_equally():
    first, second = [ranked({}, ARMS, random.Random(4)) for _ in range(2)]
    assert first == second


def test_shares_are_those_of_the_draws():
    accounts = {"tune": ArmStats(30, 30.0, 10, 5.0), "rewrite": ArmStats(30, 30.0, 1, 0.1)}
    found, counts = shares(accounts, ARMS), drawn(accounts)
    assert sum(found.values()) == 1.0
    assert all(abs(found[name] - counts[name] / 2000) < 0.08 for name in ARMS)
    assert shares(accounts, ()) == {}
