"""What leaves the jail about a problem is held against bounds, and the preparation makes a module without data."""

import pytest
from pydantic import ValidationError

from tests.workers.kernelbench.problems import LINEAR
from workers.protocol.kernelbench import MODULE, PREPARATION, ProblemInspection, ProblemQuestion


@pytest.mark.parametrize(
    "said",
    [
        {"arguments": ["x); import os; ("]},
        {"parameters": {"weight": "conv'weight"}},
        {"dims": {"M": 0}},
        {"inputs": [{"name": "x", "shape": ["M"], "dtype": "complex64"}]},
        {"line": 0},
    ],
)
def test_an_inspection_that_cannot_be_is_refused(said: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        ProblemInspection.model_validate(said)


def test_a_question_has_a_problem_of_bounded_length() -> None:
    with pytest.raises(ValidationError):
        ProblemQuestion(source="")
    with pytest.raises(ValidationError):
        ProblemQuestion(source="#" * 50_000)


def test_the_prepared_module_has_no_data_and_keeps_no_statistics() -> None:
    namespace: dict = {"__name__": "reference"}
    exec(LINEAR + PREPARATION, namespace)
    module = namespace[MODULE]
    assert all(parameter.is_meta for parameter in module.parameters()) and module.training
    assert list(module.buffers()) == [] and module.norm.running_mean is None
