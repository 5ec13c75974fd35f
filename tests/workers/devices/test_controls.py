"""Controls are plans that work twice as much as the pacer, and one launch less; what they must show is held to."""

import time
from collections.abc import Callable

import pytest

from tests.workers.checks import cases
from tests.workers.devices.kernels import PLAIN, job_for
from tests.workers.devices.raced import OPERATOR, QUICK_US, SHAPE, Machine, codes_of, memory_at, raced
from tests.workers.paper_driver import Launched, Paper
from tests.workers.runner.plans import hold
from workers.commands import PairSide
from workers.device_kernels import DeviceKernels
from workers.devices.card_processes import CardFailed
from workers.devices.controls import (
    CONFIRM_S,
    JOBS_PER_BATCH,
    ControlBatches,
    TimingControls,
    repeated,
    without_last_launch,
)
from workers.devices.ending import JudgementEnded
from workers.devices.paired_timing import CallTime
from workers.protocol import Allocate, Launch, Outcome, Plan


def test_controls_are_tried_again_after_so_many_measurements_or_so_much_time() -> None:
    batches, given = ControlBatches(), {"equal": 1.0}
    batches.count("one", None)
    for _ in range(JOBS_PER_BATCH):
        batches.count("one", batches.controls("one") or given)
    assert batches.controls("one") is batches.controls("other") is None
    batches.count("one", dict(given))
    assert batches.controls("one") == given
    assert batches.controls("one", CONFIRM_S) == given
    assert batches.controls("one", 0.0) is None


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


class Timely(Machine):
    """The card's clock is the host's, and kernels take as long as they are said to."""

    def __init__(self, paper: Paper, support: DeviceKernels) -> None:
        super().__init__(paper, support)
        self.begun_s = time.perf_counter()
        paper.deeds["delay"] = self.hold

    def hold(self, launched: Launched) -> None:
        self.paper.now_us = max(self.paper.now_us, self.host_us())
        hold(self.paper, launched)

    def host_us(self) -> float:
        return (time.perf_counter() - self.begun_s) * 1e6


class Indifferent(Timely):
    """A sample takes as long whatever is done in it."""

    rested = True

    def hold(self, launched: Launched) -> None:
        super().hold(launched)
        self.rested = True

    def compute(self, place: tuple[int, ...], us: float = 20.0) -> None:
        super().compute(place, us if self.rested else 0.0)
        self.rested = False


class Slow(Timely):
    """The card's clock goes at a third of the host's pace."""

    def host_us(self) -> float:
        return super().host_us() / 3


class Spoiled(Timely):
    """From some time on, all results are zeros."""

    since_check = False

    def compute(self, place: tuple[int, ...], us: float = QUICK_US) -> None:
        super().compute(place, us)
        if self.since_check:
            memory_at(place[1])[:] = 0


def controls_of(
    make: Callable[[Paper, DeviceKernels], Machine] = Timely, change: Callable[[Plan], Plan] = lambda plan: plan
) -> dict[str, float]:
    with raced(make) as (trial, _):
        given = trial.bundles[PairSide.PACER]
        pacer = given.model_copy(update={"plans": tuple(change(plan) for plan in given.plans)})
        graphs = (cases.graph_of(OPERATOR, SHAPE),)
        return TimingControls(trial.processes, OPERATOR, graphs, pacer, codes_of(pacer), CallTime(QUICK_US)).run()


def test_controls_on_a_card_that_can_be_believed() -> None:
    found = controls_of()
    assert found.pop("host") == pytest.approx(1.0, abs=0.5)
    assert found == pytest.approx({"equal": 1.0, "twice": 2.0, "idle": 1.0})


@pytest.mark.parametrize(
    ("make", "why"), [(Indifferent, "done twice, a plan takes 1.000 times as long"), (Slow, "by the host's clock")]
)
def test_a_control_that_comes_out_otherwise_is_a_failure_of_the_card(make: type[Machine], why: str) -> None:
    with pytest.raises(CardFailed, match=why):
        controls_of(make)


def test_a_plan_that_does_without_its_last_launch_is_not_believed() -> None:
    with pytest.raises(CardFailed, match="leaves out its last launch was not refused"):
        controls_of(change=repeated)


def test_a_pacer_that_is_refused_is_no_failure_of_the_card() -> None:
    with raced(Spoiled) as (trial, machine):
        machine.since_check = True
        pacer, graphs = trial.bundles[PairSide.PACER], (cases.graph_of(OPERATOR, SHAPE),)
        controls = TimingControls(trial.processes, OPERATOR, graphs, pacer, codes_of(pacer), CallTime(QUICK_US))
        with pytest.raises(JudgementEnded) as caught:
            controls.run()
    assert caught.value.found["outcome"] is Outcome.WRONG_RESULT


def test_equal_plans_that_differ_are_a_failure_of_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workers.devices.controls.EQUAL_WITHIN", -1.0)
    with pytest.raises(CardFailed, match=r"takes 1\.000 times as long as itself"):
        controls_of()
