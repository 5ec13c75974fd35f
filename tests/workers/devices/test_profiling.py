"""Profiles on devices: all that can be had, and a line for what cannot."""

import sys
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.workers.devices.kernels import PLAIN, SOFTMAX, job_of_lines
from tests.workers.profiler.pages import RAW
from workers.devices.ending import JudgementEnded
from workers.devices.launch_times import LaunchTimes
from workers.devices.model import ModelDevice
from workers.devices.profiling import ABSENT, UNMEASURED, UNWANTED, CardProfile, read_plan
from workers.errors import BadMessage, Transient
from workers.profiler import NsightCompute
from workers.protocol import Device, Outcome, ProfileJob, Stage
from workers.targets import TARGETS

TARGET = TARGETS["sm_90"]


@pytest.fixture(scope="module")
def job() -> ProfileJob:
    plain, lined = job_of_lines(PLAIN)
    return ProfileJob(id="p", operator=SOFTMAX, bundle=plain, lined=lined)


class Card:
    """Processes of a card that times nothing: the timing has tests of its own."""

    def __init__(self) -> None:
        self.alone = False
        self.gpu_lock = SimpleNamespace(exclusive=self._exclusive)

    @contextmanager
    def _exclusive(self):
        self.alone = True
        yield
        self.alone = False

    def make_room(self) -> None:
        pass


def run(job: ProfileJob, *, nsight=None, copy=lambda *_: 9.5, times=None):
    def timed(*_: object) -> LaunchTimes:
        if isinstance(times, Exception):
            raise times
        return times or LaunchTimes(12.5, (12.5,))

    return CardProfile(job, read_plan(job, TARGET), Card(), 0, nsight, copy, timed).run({"torch": "2"})


def test_without_a_card_a_device_profiles_the_machine_code(job: ProfileJob) -> None:
    report = ModelDevice(Device.parse("model:sm_90"), "worker").profile(job)
    (kernel,) = report.kernels
    assert (report.job, report.shape, report.time_us, report.copy_us, report.card) == (
        "p",
        "M=2048,N=1024",
        *[None] * 3,
    )
    assert kernel.function == "kernel" and kernel.programs == 2048 and kernel.hottest[0].line
    assert report.notes == (UNMEASURED,) and report.versions["triton"]


def test_a_card_adds_times_and_says_that_the_tool_is_missing(job: ProfileJob) -> None:
    report = run(job)
    assert (report.time_us, report.copy_us, report.kernels[0].time_us) == (12.5, 9.5, 12.5)
    assert report.notes == (ABSENT,)
    unasked = run(job.model_copy(update={"counters": False}), nsight=NsightCompute("/bin/false"))
    assert unasked.notes == (UNWANTED,)


def test_what_fails_is_a_note_and_the_rest_stays(job: ProfileJob) -> None:
    def no_copy(*_: object) -> float:
        raise Transient("the baselines process ended")

    hang = JudgementEnded(Stage.TIME, Outcome.HANG, "it does not end")
    report = run(job, nsight=NsightCompute("/bin/false"), copy=no_copy, times=hang)
    assert (report.time_us, report.copy_us) == (None, None) and report.kernels[0].hottest
    assert report.notes == (
        "not timed: it does not end",
        "no copy was timed: the baselines process ended",
        "Nsight Compute failed: it printed nothing",
    )


def test_counters_are_taken_alone_on_the_card(job: ProfileJob, tmp_path: Path) -> None:
    tool = tmp_path / "ncu"
    tool.write_text(
        f"#!{sys.executable}\nimport sys\nif '--import' in sys.argv:\n"
        f"    print({RAW!r} if 'raw' in sys.argv else '')\n"
        "else:\n    open(sys.argv[sys.argv.index('--export') + 1], 'w')\n"
    )
    tool.chmod(0o755)
    (kernel,) = run(job, nsight=NsightCompute(str(tool))).kernels
    assert kernel.counters["time_us"] == 47.104 and kernel.stalls["long_scoreboard"] == 0.75


def test_a_plan_that_breaks_a_rule_is_not_run(job: ProfileJob) -> None:
    (digest, kernel), *_ = job.bundle.kernels.items()
    hostile = kernel.model_copy(
        update={"assembly": kernel.assembly.replace("\tret;", "\tnonsense.u32 %r1;\n\tret;", 1)}
    )
    plan = job.bundle.plans[0]
    steps = tuple(
        step.model_copy(update={"kernel": hostile.digest}) if hasattr(step, "kernel") else step for step in plan.steps
    )
    bundle = job.bundle.model_copy(
        update={"kernels": {hostile.digest: hostile}, "plans": (plan.model_copy(update={"steps": steps}),)}
    )
    assert digest not in bundle.kernels
    with pytest.raises(BadMessage, match="the plan is refused"):
        read_plan(job.model_copy(update={"bundle": bundle}), TARGET)
    with pytest.raises(BadMessage, match="no profiles of kernels for gfx942"):
        read_plan(job, TARGETS["gfx942"])


def test_other_machine_code_than_the_judged_is_said(job: ProfileJob) -> None:
    forged = job.bundle.model_copy(update={"cubins": dict.fromkeys(job.bundle.cubins, "0" * 64)})
    read = read_plan(job.model_copy(update={"bundle": forged}), TARGET)
    assert "the machine code differs from the judged one" in " ".join(read.notes)
