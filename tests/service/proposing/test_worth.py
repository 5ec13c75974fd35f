"""The model learns what pays, and chooses by it."""

import random
from math import log

import pytest

from service.proposing.worth import FEWEST, Model, features


def test_features_are_what_is_known_before_a_trace() -> None:
    known = features({"num_warps": 8}, ["exp2"], {"registers": 63, "launches": None, "bytes_moved": 9}, 2.0)
    assert known["num_warps"] == 3.0 and known["num_warps squared"] == pytest.approx(9 / 8)
    assert known["move exp2"] == 1.0 and known["of the parent: objective"] == pytest.approx(log(2))
    assert known["of the parent: registers"] == pytest.approx(6 / 4) and known["of the parent: launches"] == 0.0
    assert not any("bytes_moved" in name for name in known)
    assert features({}, (), {}, None) == {"": 1.0}


def test_a_model_expects_what_it_saw_and_chooses_by_it() -> None:
    rng = random.Random(2)
    judged = []
    for _ in range(3 * FEWEST):
        x = rng.uniform(0, 4)
        judged.append(({"": 1.0, "x": x, "noise": rng.random()}, 1.0 + x if x > 1 else None))
    model = Model(judged)
    good, bad = {"": 1.0, "x": 2.0}, {"": 1.0, "x": 0.0}
    assert model.is_ready and model.expect({"": 1.0, "x": 1.5}) == pytest.approx(log(2.5), abs=0.5)
    assert model.choose([bad, good, bad]) == 1 and model.choose([good, good]) == 0


@pytest.mark.parametrize("judged", [[], [({"": 1.0}, 1.0)] * 3 * FEWEST])
def test_the_first_is_taken_while_there_is_nothing_to_learn_from(judged: list[tuple[dict[str, float], float]]) -> None:
    model = Model(judged)
    assert not model.is_ready and model.choose([{"x": 1.0}, {"x": 2.0}]) == 0
