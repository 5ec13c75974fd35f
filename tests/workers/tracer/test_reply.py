import pytest
from pydantic import ValidationError

from workers.protocol import Outcome
from workers.tracer.reply import MAX_VARIANTS, TracedPlans, TraceReply


def test_a_reply_survives_the_wire():
    reply = TraceReply(
        outcome=Outcome.COMPILE_ERROR, reason="no", line=3, variants=(TracedPlans(),), stages_s={"trace": 1.0}
    )
    assert TraceReply.model_validate_json(reply.model_dump_json()) == reply


@pytest.mark.parametrize(
    "hostile",
    [
        {"variants": [{}] * (MAX_VARIANTS + 1)},
        {"reason": "x" * 2001},
        {"line": 0},
        {"line": 10**9},
        {"outcome": "perfect"},
        {"stages_s": {"time": 1.0}},
        {"stages_s": {"trace": -1.0}},
        {"stages_s": {"trace": "NaN"}},
        {"variants": [{"configuration": {"BLOCK": [1]}}]},
        {"variants": [{"configuration": {"BLOCK": "x" * 300}}]},
        {"kernels": {"short": {}}},
        {"speedup": 2.0},
    ],
)
def test_bounds_hold(hostile):
    with pytest.raises(ValidationError):
        TraceReply.model_validate(hostile)
