"""On a card, a judge without the checks that stop a rogue finds nothing wrong with it, or notices that it is blind.

The second line is the control: a pacer without its last launch, which has to be refused before anything is judged.
Rogues that are stopped by the same checks come before one judge, one after the other.
"""

from collections.abc import Iterator, Mapping

import pytest

from tests.gpu.judging import Traces, measure_job
from tests.gpu.rogues import load_rogues
from tests.gpu.runner.card import on_card
from tests.workers.rogues import without
from workers.checks import CHECKS
from workers.devices import CudaDevice
from workers.devices.crew import CardFailed
from workers.protocol import MEASURED_DEADLINE_S, Device, MeasureJob, Outcome, Report

LINES = without.CHECKS | without.MORE_CHECKS
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(len(LINES) * MEASURED_DEADLINE_S)]
LATER = {Outcome.CORRECT, Outcome.NONDETERMINISTIC, Outcome.BELOW_FLOOR}
"""What becomes of it then: it gets through, or what is no check of the table finds it."""
Judged = dict[str, Report | str]


def judged(device: Device, jobs: Mapping[str, MeasureJob], left_out: frozenset[str]) -> Judged:
    checks = {key: check for key, check in CHECKS.items() if key not in left_out}
    bench = CudaDevice(device, "tester", checks=checks)
    try:
        return {name: _report(bench, job) for name, job in jobs.items()}
    finally:
        bench.close()


def _report(bench: CudaDevice, job: MeasureJob) -> Report | str:
    try:
        return bench.measure(job)
    except CardFailed as error:
        return str(error)


class Judges:
    """What judges said of the rogues that are asked about; each judge sits once."""

    def __init__(self, device: Device, jobs: Mapping[str, MeasureJob]) -> None:
        self._device = device
        self._jobs = jobs
        self._said: dict[frozenset[str], Judged] = {}

    def ask(self, name: str, left_out: frozenset[str]) -> Report | str:
        if left_out not in self._said:
            jobs = {each: job for each, job in self._jobs.items() if not left_out or LINES[each] == left_out}
            self._said[left_out] = on_card(judged, self._device, jobs, left_out)
        return self._said[left_out][name]


@pytest.fixture(scope="module")
def judges(device: Device, traces: Traces, request: pytest.FixtureRequest) -> Iterator[Judges]:
    asked = {item.callspec.params["name"] for item in request.session.items if "judges" in item.fixturenames}
    yield Judges(device, {name: job_of(name, traces, device) for name in sorted(asked)})


def job_of(name: str, traces: Traces, device: Device) -> MeasureJob:
    (variant,) = traces.variants(name)
    return measure_job(load_rogues()[name], variant, traces, device)


@pytest.mark.parametrize("name", LINES)
def test_without_the_checks_nothing_is_found(name: str, judges: Judges) -> None:
    report = judges.ask(name, frozenset(LINES[name]))
    if isinstance(report, str):
        assert report == "a control failed: a plan that leaves out its last launch was not refused"
    else:
        assert report.outcome in LATER, report.reason
        assert [check.name for check in report.checks if check.verdict == "failed"] == []
    stopped = judges.ask(name, frozenset())
    assert isinstance(stopped, Report), stopped
    assert stopped.outcome in load_rogues()[name].outcomes, stopped.reason
