"""Controls are plans that work twice as much as the pacer, and one launch less; what they must show is held to."""

import pytest

from tests.workers.devices.kernels import PLAIN, job_for
from workers.devices.controls import repeated, without_last_launch
from workers.protocol import Allocate, Launch, Plan


@pytest.fixture(scope="module")
def plan() -> Plan:
    return job_for(PLAIN).bundle.benchmarks[0]


def work(plan: Plan) -> list[object]:
    return [step for step in plan.steps if not isinstance(step, Allocate)]


def test_all_work_is_done_twice_on_the_same_memory(plan: Plan) -> None:
    twice = repeated(plan)
    assert work(twice) == work(plan) * 2
    assert [step for step in twice.steps if isinstance(step, Allocate)] == [
        step for step in plan.steps if isinstance(step, Allocate)
    ]
    assert Plan.model_validate(twice.model_dump()) == twice


def test_the_last_launch_is_left_out_and_nothing_else(plan: Plan) -> None:
    again = repeated(plan)
    fewer = without_last_launch(again)
    assert len(fewer.launches) == len(again.launches) - 1
    assert [step for step in work(fewer) if not isinstance(step, Launch)] == [
        step for step in work(again) if not isinstance(step, Launch)
    ]
    assert Plan.model_validate(fewer.model_dump()) == fewer
