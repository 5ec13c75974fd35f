"""Rogues of the host whose plans are in order: on `model`, whose verdict comes from the text, they get no better one."""

import pytest

from tests.traces import trace_once
from tests.workers.rogues.modelled import DEVICE, model_job
from tests.workers.test_trace_job import EXPECTED, ROGUES
from tests.workers.tracer.jobs import job
from workers.devices import ModelDevice
from workers.protocol import Outcome, Report

OTHER_TEXT = {"changes_its_kernel", "hides_behind_a_name", "passes_a_tagged_text", "shows_another_constant"}
"""Those whose text says something else than their machine code."""
WRONG = {"knows_its_address", "says_two_things"}
"""Those that only somebody who reads their text in another way than the compiler takes for right."""


def judged(source: str) -> Report:
    asked = job(source)
    report = trace_once(asked)
    graphs = trace_once(asked.model_copy(update={"source": None})).graphs
    return ModelDevice(DEVICE, "tester").measure(model_job(asked.operator, source, report, graphs))


@pytest.mark.parametrize("name", [name for name, (outcome, *_) in EXPECTED.items() if outcome is Outcome.CORRECT])
def test_text_and_machine_code_are_the_same_kernel(name: str) -> None:
    report = judged((ROGUES / f"{name}.py").read_text())
    assert (report.outcome is Outcome.NOT_INTERPRETABLE) is (name in OTHER_TEXT), report.reason
    assert report.outcome is Outcome.WRONG_RESULT or name not in WRONG, report.reason
