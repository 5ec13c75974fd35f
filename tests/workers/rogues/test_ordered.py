"""Ordered, empty and optional inputs: right kernels are accepted, and kernels that count on too much are refused."""

import pytest

from tests.workers.rogues.modelled import DEVICE, model_job, trace_of
from tests.workers.rogues.ordered import RIGHT, WRONG
from workers.devices import ModelDevice
from workers.mutation_testing import admit
from workers.protocol import Operator, Outcome, Report, TraceReport


def judged(operator: Operator, source: str) -> Report | TraceReport:
    graphs = trace_of(operator, None)
    assert graphs.outcome is Outcome.CORRECT, graphs.reason
    report = trace_of(operator, source)
    if report.outcome is not Outcome.CORRECT:
        return report
    return ModelDevice(DEVICE, "tester").measure(model_job(operator, source, report, graphs.graphs))


@pytest.mark.parametrize("name", RIGHT)
def test_right_kernels_are_accepted(name: str) -> None:
    report = judged(*RIGHT[name])
    assert report.outcome is Outcome.CORRECT, report.reason


REFUSALS = (
    *(Outcome.WRONG_RESULT, Outcome.PRECISION, Outcome.OUT_OF_BOUNDS),
    *(Outcome.TRACE_CRASHED, Outcome.COMPILE_ERROR),
)
"""Outcomes of kernels that are wrong. Secret inputs decide by how much, and few wrong elements look like rounding."""


@pytest.mark.parametrize("name", WRONG)
def test_kernels_that_count_on_too_much_are_refused(name: str) -> None:
    report = judged(*WRONG[name])
    assert report.outcome in REFUSALS, (report.outcome, report.reason)


@pytest.mark.parametrize("name", RIGHT)
def test_the_checks_tell_right_from_wrong(name: str) -> None:
    operator = RIGHT[name][0]
    found = admit(operator, trace_of(operator, None).graphs)
    assert found.verdict == "passed", found.reason
