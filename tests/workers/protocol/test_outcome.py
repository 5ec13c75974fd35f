import json

import pytest

from workers.protocol import Outcome, Provenance, Stage, Trust


@pytest.mark.parametrize("kind", [Outcome, Stage, Trust, Provenance])
def test_members_cross_the_border_as_plain_text(kind: type[Outcome | Stage | Trust | Provenance]) -> None:
    for member in kind:
        assert json.loads(json.dumps({"is": member})) == {"is": member.value}
        assert kind(member.value) is member


def test_outcomes_are_those_of_the_contract() -> None:
    assert [outcome.value for outcome in Outcome] == [
        "correct",
        "syntax_error",
        "forbidden_import",
        "forbidden_op",
        "host_read",
        "unsupported_launch",
        "compile_error",
        "trace_timeout",
        "trace_memory",
        "trace_crashed",
        "plan_rejected",
        "wrong_result",
        "wrong_output_type",
        "input_mutated",
        "out_of_bounds",
        "nondeterministic",
        "precision",
        "device_fault",
        "hang",
        "below_floor",
        "not_interpretable",
        "not_recorded",
        "worker_lost",
    ]
