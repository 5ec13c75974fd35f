"""The model learns what pays, and hopes by it."""

import random

import pytest

from service.generation.surrogate import FEWEST, LENGTHS, Features, Surrogate, features

RULES = [f"rule{number}" for number in range(6)]


def judged(count: int, seed: int = 2) -> list[tuple[Features, float | None]]:
    """Worth 1 to 8 by the number, twice as much with one rule; with another nothing works."""
    rng, found = random.Random(seed), list[tuple[Features, float | None]]()
    for _ in range(count):
        trail, power = rng.sample(RULES, 2), rng.randint(0, 3)
        worth = 2.0**power * (2.0 if "rule0" in trail else 1.0)
        found.append((features({"BLOCK": 2**power}, trail), None if "rule1" in trail else worth))
    return found


def test_features_are_what_is_known_before_a_text_is_written() -> None:
    known = features({"num_warps": 16, "cap": 0}, ["exp2", "seed 0"])
    assert known == {"number num_warps": 1.0, "rule exp2": 1.0, "rule seed 0": 1.0}


def test_what_is_better_in_every_way_is_hoped_of_first() -> None:
    model = Surrogate(judged(80))
    good, plain, failing = (features({"BLOCK": 8}, [rule, "rule5"]) for rule in ("rule0", "rule3", "rule1"))
    small = features({"BLOCK": 1}, ["rule3", "rule5"])
    hopes = model.acquisition([failing, small, plain, good])
    assert model.is_ready and hopes == sorted(hopes)


def test_what_is_little_known_is_hoped_of_more_than_what_is_known_to_be_as_good() -> None:
    model = Surrogate([(features({"BLOCK": 2**power}, ["a"]), 2.0**power) for power in range(4)] * 4)
    seen, unseen = model.acquisition([features({"BLOCK": 2}, ["a"]), features({"BLOCK": 2}, ["b", "c", "d", "e"])])
    assert unseen > seen


def test_one_outlier_bends_nothing() -> None:
    plain = judged(60)
    worst = min(range(60), key=lambda place: plain[place][1] or 9.0)
    bent = [(known, 1e-9 if place == worst else worth) for place, (known, worth) in enumerate(plain)]
    assert Surrogate(bent).acquisition([plain[0][0]]) == pytest.approx(
        Surrogate(plain).acquisition([plain[0][0]]), abs=0.2
    )


def test_equal_verdicts_give_equal_hopes() -> None:
    offered = [known for known, _ in judged(20, seed=3)]
    assert Surrogate(judged(50)).acquisition(offered) == Surrogate(judged(50)).acquisition(offered)
    assert Surrogate(judged(50)).acquisition([]) == [] and len(LENGTHS) > 1


@pytest.mark.parametrize("found", [[], judged(FEWEST - 1), [(features({}, ["a"]), 1.0)] * 3 * FEWEST])
def test_it_is_not_ready_while_there_is_nothing_to_learn_from(found: list[tuple[Features, float | None]]) -> None:
    assert not Surrogate(found).is_ready
