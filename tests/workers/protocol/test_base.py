"""The protocol's version is raised when what decides changes; what follows another one is not read as ours."""

import pytest
from pydantic import ValidationError

from tests.workers.protocol.deciding import deciding, kept
from tests.workers.queue.samples import confirm_job, measure_job, report_on, trace_job
from workers.protocol import JOB, PROTOCOL_VERSION, REPORT, check_protocol

ADVICE = """
If a verdict or a figure can come out otherwise than before, raise PROTOCOL_VERSION in workers/protocol/base.py and say
there why: no report made before is then used again. Either way, python -m tests.workers.protocol.deciding keeps the new
state, and the difference is part of your change.
"""


def test_what_decides_does_not_change_without_a_thought_of_the_version() -> None:
    then, now = kept(), deciding()
    assert then["protocol_version"] == PROTOCOL_VERSION, ADVICE
    assert now == then["deciding"], ADVICE


def test_constants_of_all_kinds_are_seen() -> None:
    seen = deciding()
    assert seen["checks.bias.DEVIATIONS"] == "6.0" and seen["assembler.ptx.ptxas.MOST_STACK_BYTES"] == "24 * 2 ** 10"
    assert seen["devices.controls.TWICE"] == "(1.25, 4.0)" and seen["checks.location"] == "a module"
    assert "devices.paired_timing.ROUND_S" not in seen


@pytest.mark.parametrize("job", [trace_job("job"), measure_job("job"), confirm_job("job")])
def test_a_job_of_another_protocol_cannot_be_read(job) -> None:
    text = job.model_dump_json()
    assert JOB.validate_json(text) == job
    with pytest.raises(ValidationError, match=f"protocol 1, and here protocol {PROTOCOL_VERSION}"):
        JOB.validate_json(text.replace(f'"protocol_version":{PROTOCOL_VERSION}', '"protocol_version":1'))


@pytest.mark.parametrize("job", [trace_job("job"), measure_job("job")])
def test_reports_of_another_protocol_are_still_read(job) -> None:
    older = report_on(job, "w").model_copy(update={"protocol_version": 1})
    assert REPORT.validate_json(older.model_dump_json()) == older


def test_a_version_is_ours_or_said_not_to_be() -> None:
    assert check_protocol(PROTOCOL_VERSION) == PROTOCOL_VERSION
    with pytest.raises(ValueError, match="it follows protocol 7"):
        check_protocol(7)
