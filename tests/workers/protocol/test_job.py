import json

import pytest
from pydantic import ValidationError

from tests.workers.protocol.documents import bundle
from tests.workers.protocol.test_graph import GRAPH
from tests.workers.protocol.test_operator import SPEC
from workers.protocol import (
    JOB,
    MAX_SOURCE_BYTES,
    PROTOCOL_VERSION,
    ConfirmJob,
    Device,
    Graph,
    Job,
    MeasureJob,
    Operator,
    Shape,
    TraceJob,
)

OPERATOR = Operator.model_validate(SPEC)
TRACE = TraceJob(
    id="1",
    search="2",
    source="import triton",
    operator=OPERATOR,
    shapes=(Shape(dims={"M": 8, "N": 1, "K": 1}),),
    target="sm_90",
)
MEASURE = MeasureJob(
    id="1",
    search="2",
    candidate="3",
    variant=0,
    bundle=bundle(),
    operator=OPERATOR,
    graphs=(Graph.model_validate(GRAPH),),
    device=Device.parse("model:sm_90"),
)
CONFIRM = ConfirmJob(
    id="1",
    search="2",
    candidate="3",
    variant=0,
    challenger=bundle(),
    operator=OPERATOR,
    graphs=(),
    device=Device.parse("h200"),
    pacer=bundle().reduced(),
)


@pytest.mark.parametrize("job", [TRACE, MEASURE, CONFIRM], ids=lambda job: job.kind)
def test_a_job_is_read_back_as_its_kind(job: Job) -> None:
    back = JOB.validate_json(JOB.dump_json(job))
    assert back == job
    assert type(back) is type(job)
    assert back.protocol_version == PROTOCOL_VERSION


@pytest.mark.parametrize("text", ["{}", "[]", "null", "", '{"kind": "judge"}', "[" * 10_000])
def test_what_is_no_job_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        JOB.validate_json(text)


def test_a_source_has_a_longest_length() -> None:
    document = json.loads(TRACE.model_dump_json())
    document["source"] = "#" * (MAX_SOURCE_BYTES + 1)
    with pytest.raises(ValidationError, match="at most"):
        JOB.validate_python(document)
