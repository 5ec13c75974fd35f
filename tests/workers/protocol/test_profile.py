"""A profile is of one plan, and crosses a border as JSON like any message to an executor."""

import pytest
from pydantic import ValidationError

from tests.service import records
from workers.protocol import ANSWER, JOB, MESSAGE, KernelProfile, ProfileJob, ProfileReport, patience_s

JOB_OF_ONE = ProfileJob(
    id="p", operator=records.OPERATOR, bundle=records.bundle().restricted(records.bundle().plans[:1])
)


def test_a_job_is_for_one_plan() -> None:
    with pytest.raises(ValidationError, match="a profile is of one plan; the bundle has"):
        ProfileJob(id="p", operator=records.OPERATOR, bundle=records.bundle())


def test_executors_take_profiles_and_the_queue_does_not() -> None:
    text = JOB_OF_ONE.model_dump_json()
    assert MESSAGE.validate_json(text) == JOB_OF_ONE
    with pytest.raises(ValidationError):
        JOB.validate_json(text)
    assert patience_s(JOB_OF_ONE) == 2 * JOB_OF_ONE.deadline_s


def test_a_report_is_an_answer() -> None:
    kernel = KernelProfile(
        function="f", programs=1, num_warps=4, registers=32, spill_bytes=0, shared_bytes=0, resident=1,
        limiters=("registers",), occupancy=0.5, waves=1.5,
    )  # fmt: skip
    report = ProfileReport(job="p", shape="N=1", kernels=(kernel,), notes=("without a card",))
    assert ANSWER.validate_json(report.model_dump_json()) == report
