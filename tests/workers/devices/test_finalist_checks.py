import pytest

from tests.service import records
from workers.devices.finalist_checks import FAR_INDICES, FINAL_CHECKS, RANDOM_SHAPES, far_plan, random_plans, skipped
from workers.inputs import DRAWS
from workers.protocol import Shape, ShapeRole
from workers.protocol import operator as operators


def test_random_plans_get_two_draws_each_and_all_draws_in_turn() -> None:
    bundle = records.bundle(1)
    plan = bundle.plans[0]
    drawn = [
        plan.model_copy(update={"shape": plan.shape.model_copy(update={"role": ShapeRole.RANDOM, "dims": {"N": size}})})
        for size in range(1, 12)
    ]
    found = list(random_plans(bundle.model_copy(update={"plans": (*bundle.plans, *drawn)}), records.OPERATOR))
    assert [index for index, *_ in found] == list(range(len(bundle.plans), len(bundle.plans) + 11))
    assert all(len(draws) == 2 and draws[0] == "normal" != draws[1] for *_, draws in found)
    assert {name for *_, draws in found for name in draws} == set(DRAWS)
    assert list(random_plans(bundle, records.OPERATOR)) == []


def test_the_plan_with_indices_beyond_2_to_the_31_stands_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(operators, "FAR", 100)
    bundle = records.bundle(1)
    near, far = (
        bundle.plans[0].model_copy(update={"shape": Shape(dims={"N": size}, role=ShapeRole.RANDOM)})
        for size in (100, 101)
    )
    both = bundle.model_copy(update={"plans": (*bundle.plans, far, near)})
    assert [plan for _, plan, _ in random_plans(both, records.OPERATOR)] == [near]
    assert far_plan(both, records.OPERATOR) == far and far_plan(bundle, records.OPERATOR) is None


def test_a_check_that_was_not_made_says_why() -> None:
    assert FINAL_CHECKS == (RANDOM_SHAPES, "memcheck", "initcheck", "racecheck", FAR_INDICES)
    result = skipped(RANDOM_SHAPES, "no card")
    assert (result.name, result.verdict, result.detail) == (RANDOM_SHAPES, "skipped", "no card")
