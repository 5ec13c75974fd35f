"""On a card, a judge without the checks that stop a rogue finds nothing wrong with it.

The rogue alone meets the smaller table. One of the controls, a pacer without its last launch, would not be refused by
it, and then nothing would be judged: so the controls are those of a judge with all checks, before whom the rogue comes
first, and is stopped. Rogues that are stopped by the same checks come before one judge, one after the other.
"""

from collections.abc import Iterator, Mapping

import pytest

from tests.gpu.judging import Traces, measure_job
from tests.gpu.rogues import load_rogues
from tests.gpu.runner.card import on_card
from tests.workers.rogues import without
from workers.checks import CHECKS
from workers.devices import CudaDevice
from workers.devices.card_processes import CardFailed
from workers.protocol import MEASURED_DEADLINE_S, Device, MeasureJob, Outcome, Report

VALUES = frozenset({"special_values", "error_ratio", "bias"})
"""The checks of values. Which of them stops a rogue turns on shapes and draws: on a card, which judges at more shapes
than `model` and where memory outlives a call, whoever is stopped by one may be by the others."""
LINES = {
    name: frozenset(lines | VALUES if lines & VALUES else lines)
    for name, lines in (without.CHECKS | without.MORE_CHECKS).items()
}
pytestmark = [pytest.mark.gpu, pytest.mark.timeout(len(LINES) * MEASURED_DEADLINE_S)]
LATER = {Outcome.CORRECT, Outcome.NONDETERMINISTIC, Outcome.BELOW_FLOOR}
"""What becomes of it then: it gets through, or what is no check of the table finds it."""
Judged = dict[str, Report | str]


class LessStrict(CudaDevice):
    """A judge that lacks checks, and is told what controls gave that another one judged.

    Args:
        device: The card's class.
        left_out: The checks that it lacks.
        controls: By digest of the operator; those that are missing it judges itself. They hold for a batch.
    """

    def __init__(self, device: Device, left_out: frozenset[str], controls: Mapping[str, dict[str, float]]) -> None:
        super().__init__(device, "tester", checks={key: each for key, each in CHECKS.items() if key not in left_out})
        for operator, told in controls.items():
            self._batches.count(operator, told)


def judged(
    device: Device,
    jobs: Mapping[str, MeasureJob],
    left_out: frozenset[str],
    controls: Mapping[str, dict[str, float]],
) -> Judged:
    bench = LessStrict(device, left_out, controls)
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

    def ask(self, name: str, left_out: frozenset[str]) -> Report:
        """The report on a rogue by a judge without some checks.

        Raises:
            AssertionError: If there is none: whoever was not judged got through nothing.
        """
        if left_out not in self._said:
            jobs = {each: job for each, job in self._jobs.items() if not left_out or LINES[each] == left_out}
            controls = self._controls(jobs) if left_out else {}
            self._said[left_out] = on_card(judged, self._device, jobs, left_out, controls)
        report = self._said[left_out][name]
        assert isinstance(report, Report), report
        return report

    def _controls(self, jobs: Mapping[str, MeasureJob]) -> dict[str, dict[str, float]]:
        return {job.operator.digest: self.ask(name, frozenset()).controls for name, job in jobs.items()}


@pytest.fixture(scope="module")
def judges(device: Device, traces: Traces, request: pytest.FixtureRequest) -> Iterator[Judges]:
    asked = {item.callspec.params["name"] for item in request.session.items if "judges" in item.fixturenames}
    yield Judges(device, {name: job_of(name, traces, device) for name in sorted(asked)})


def job_of(name: str, traces: Traces, device: Device) -> MeasureJob:
    (variant,) = traces.variants(name)
    return measure_job(load_rogues()[name], variant, traces, device)


@pytest.mark.parametrize("name", LINES)
def test_without_the_checks_nothing_is_found(name: str, judges: Judges) -> None:
    stopped = judges.ask(name, frozenset())
    assert stopped.outcome in load_rogues()[name].outcomes, stopped.reason
    assert stopped.controls["idle"] == 1.0, "the control was refused by the whole table"
    report = judges.ask(name, LINES[name])
    assert report.outcome in LATER, report.reason
    assert report.controls == stopped.controls
    assert [check.name for check in report.checks if check.verdict == "failed"] == []
