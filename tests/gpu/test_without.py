"""On a card, a judge without the checks that stop a rogue finds nothing wrong with it, or notices that it is blind.

The second line is the control: a pacer without its last launch, which has to be refused before anything is judged.
"""

import pytest

from tests.gpu.judging import measure_job
from tests.gpu.rogues import load_rogues
from tests.gpu.runner.card import on_card
from tests.workers.rogues import without
from workers.checks import CHECKS
from workers.devices import CudaDevice
from workers.devices.crew import CardFailed
from workers.protocol import MEASURED_DEADLINE_S, Device, MeasureJob, Outcome, Report

pytestmark = [pytest.mark.gpu, pytest.mark.timeout(2 * MEASURED_DEADLINE_S + 60)]
LINES = without.CHECKS | without.MORE_CHECKS
LATER = {Outcome.CORRECT, Outcome.NONDETERMINISTIC, Outcome.BELOW_FLOOR}
"""What becomes of it then: it gets through, or what is no check of the table finds it."""


def judged(device: Device, job: MeasureJob, left_out: frozenset[str]) -> Report | str:
    checks = {key: check for key, check in CHECKS.items() if key not in left_out}
    bench = CudaDevice(device, "tester", checks=checks)
    try:
        return bench.measure(job)
    except CardFailed as error:
        return str(error)
    finally:
        bench.close()


@pytest.mark.parametrize("name", LINES)
def test_without_the_checks_nothing_is_found(name, traces, device):
    rogue = load_rogues()[name]
    (variant,) = traces.variants(name)
    job = measure_job(rogue, variant, traces, device)
    report = on_card(judged, device, job, frozenset(LINES[name]))
    if isinstance(report, str):
        assert report == "a control failed: a plan that leaves out its last launch was not refused"
    else:
        assert report.outcome in LATER, report.reason
        assert [check.name for check in report.checks if check.verdict == "failed"] == []
    stopped = on_card(judged, device, job, frozenset())
    assert isinstance(stopped, Report), stopped
    assert stopped.outcome in rogue.outcomes, stopped.reason
