"""Times of launches as differences of beginnings of a plan, replayed on paper."""

from dataclasses import dataclass
from math import log

import pytest

from tests.workers.devices.desk import MIX, Desk, opened_desk
from tests.workers.runner.plans import OPERATOR, bundle_of, kernel, machine_code
from workers.assembler import MachineCode
from workers.devices.launch_times import MOST_LAUNCHES, LaunchTimes, beginnings, launch_times, time_launches
from workers.devices.paired_timing import PairedTimes
from workers.protocol import Fill, Launch


@dataclass
class _Provided(Desk):
    needed: int = 0

    def provide(self, needed_bytes: int) -> None:
        self.needed = needed_bytes


PACER_US = (40.0, 41.0, 41.0, 42.0)


def paired(share: float) -> PairedTimes:
    return PairedTimes("N=8", tuple(share * each for each in PACER_US), PACER_US, 5)


def test_a_plan_begins_up_to_each_of_its_launches() -> None:
    plan = bundle_of(kernel(), steps="fill launch copy launch fill").plans[0]
    first, whole = beginnings(plan)
    assert whole == plan
    assert [type(step) for step in first.steps[-2:]] == [Fill, Launch] and len(first.launches) == 1
    assert (first.buffers, first.outputs) == (plan.buffers, plan.outputs)


@pytest.mark.parametrize("steps", ["launch", "fill", "launch fill", " ".join(["launch"] * (MOST_LAUNCHES + 1))])
def test_a_plan_of_one_launch_or_of_very_many_is_timed_as_a_whole(steps: str) -> None:
    plan = bundle_of(kernel(), steps=steps).plans[0]
    assert beginnings(plan) == (plan,)


def test_a_launch_takes_what_the_plan_takes_longer_with_it() -> None:
    found = launch_times([paired(0.25), paired(0.75), paired(1.0)], 3)
    assert found.plan_us == 41.0
    assert found.launches_us == pytest.approx((41 * 0.25, 41 * 0.5, 41 * 0.25))
    assert sum(found.launches_us) == pytest.approx(41.0)


def test_a_hidden_launch_takes_no_time_and_too_many_have_none() -> None:
    assert launch_times([paired(0.75), paired(0.7), paired(1.0)], 3).launches_us[1] == 0.0
    assert launch_times([paired(1.0)], 40) == LaunchTimes(41.0, ())
    assert log(launch_times([paired(1.0)], 1).launches_us[0] / 41.0) == 0.0


@pytest.mark.parametrize(("steps", "launches"), [("launch", 1), ("launch fill launch", 2)])
def test_a_plan_is_replayed_by_the_clock_of_the_judge(steps: str, launches: int) -> None:
    bundle = bundle_of(kernel(), steps=steps)
    codes = {digest: MachineCode(each, (), 8, 0, 0, MIX) for digest, each in machine_code(bundle).items()}
    with opened_desk() as desk:
        processes = _Provided(desk.session, desk.examiner, desk.memory)
        found = time_launches(processes, OPERATOR, bundle, codes)
    assert processes.needed > 0
    assert found.plan_us > 0 and len(found.launches_us) == launches
    assert sum(found.launches_us) == pytest.approx(found.plan_us)
