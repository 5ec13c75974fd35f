"""Ordered, empty and optional inputs: right kernels are accepted, and kernels that count on too much are refused."""

from functools import cache

import pytest

from service.operators.shapes import all_shapes
from tests.traces import trace_once
from tests.workers.rogues.modelled import DEVICE, model_job
from tests.workers.rogues.ordered import RIGHT, WRONG
from workers.devices import ModelDevice
from workers.mutation_testing import admit
from workers.protocol import Operator, Outcome, Report, TraceJob, TraceReport


@cache
def traced(name: str, source: str | None) -> TraceReport:
    operator = next(each for each, _ in (*RIGHT.values(), *WRONG.values()) if each.name == name)
    candidate = None if source is None else "candidate"
    shapes = all_shapes(operator, 5)
    job = TraceJob(
        id="job", search="search", candidate=candidate, source=source, operator=operator, shapes=shapes, target="sm_90"
    )
    return trace_once(job)


def judged(operator: Operator, source: str) -> Report | TraceReport:
    graphs = traced(operator.name, None)
    assert graphs.outcome is Outcome.CORRECT, graphs.reason
    report = traced(operator.name, source)
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
    found = admit(operator, traced(operator.name, None).graphs)
    assert found.verdict == "passed", found.reason
