"""What a bench says is told apart by its kind."""

import pytest
from pydantic import ValidationError

from tests.workers.queue.samples import measure_job, report_on, trace_job
from workers.protocol import ANSWER, ExecutorFailure, ExecutorReady


@pytest.mark.parametrize(
    "answer",
    [
        ExecutorReady(jail="pid+net", versions={"triton": "3.7.1"}),
        ExecutorFailure(error="no memory", transient=True),
        report_on(trace_job("job-1"), "w"),
        report_on(measure_job("job-1"), "w"),
    ],
    ids=lambda answer: answer.kind,
)
def test_an_answer_is_read_back_as_it_was_said(answer: ExecutorReady | ExecutorFailure) -> None:
    assert ANSWER.validate_json(answer.model_dump_json()) == answer


@pytest.mark.parametrize(
    "line", ["", "{}", '{"kind": "elite"}', '{"kind": "ready"}', '{"kind": "failure", "error": "x"}']
)
def test_what_is_no_answer_is_refused(line: str) -> None:
    with pytest.raises(ValidationError):
        ANSWER.validate_json(line)
