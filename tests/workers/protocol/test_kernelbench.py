"""What leaves the jail about a problem is held against bounds, and the preparation makes a module without data."""

import pytest
import torch
from pydantic import ValidationError

from tests.workers.kernelbench.problems import LINEAR
from workers.protocol.kernelbench import MODULE, RESULTS, ProblemInspection, ProblemQuestion, preparation


@pytest.mark.parametrize(
    "said",
    [
        {"arguments": ["x); import os; ("]},
        {"parameters": {"weight": "conv'weight"}},
        {"shapes": [{"M": -1}]},
        {"target": "f("},
        {"keywords": {0: "x="}},
        {"form": "script"},
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
    exec(LINEAR + preparation("problem", "Model"), namespace)
    module = namespace[MODULE]
    assert all(parameter.is_meta for parameter in module.parameters()) and module.norm.training and not module.training
    assert list(module.buffers()) == [] and module.norm.running_mean is None


def test_a_module_of_a_user_is_as_in_inference_and_with_data_where_that_is_needed() -> None:
    namespace: dict = {"__name__": "reference"}
    text = "import torch\ndef made():\n    return torch.nn.Sequential(torch.nn.BatchNorm1d(4), torch.nn.Dropout(0.5))\n"
    exec(text + preparation("class", "made", real=True), namespace)
    module = namespace[MODULE]
    assert not any(part.training for part in module) and module[0].running_mean.tolist() == [0.0] * 4


def test_results_are_the_tensors_of_whatever_is_returned() -> None:
    namespace: dict = {}
    exec("def f(x):\n    return x\n" + preparation("function", "f"), namespace)
    one, two = torch.ones(1), torch.ones(2)
    assert namespace[RESULTS]({"a": one, "b": (None, [two], 3)}) == (one, two) and namespace["_function"](one) is one


def test_arguments_are_names_or_plain_values() -> None:
    given = ("x", "None", "(1, 2)", "'mean'", "-1")
    assert ProblemInspection(arguments=given).arguments == given
