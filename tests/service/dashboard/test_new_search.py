import json

import pytest
from pydantic import ValidationError

from service.dashboard.new_search import (
    PASTED,
    convert_problem,
    has_problem,
    problem_name,
    read_request,
    start_form,
    wrong_fields,
)
from service.dashboard.routing import SubmittedForm
from service.errors import InvalidInput
from tests.service import records
from tests.workers.kernelbench.files import FUNCTION

RIGHT = {
    "operator": ["rmsnorm"],
    "devices": ["model:sm_90"],
    "emitters": ["tune"],
    "evaluations": ["10"],
    "seed": ["1"],
}


def sent(**changes: list[str]) -> SubmittedForm:
    return SubmittedForm({**RIGHT, **changes})


def test_a_form_becomes_a_request() -> None:
    request = read_request(sent(axes=["registers"]))
    assert (request.operator, request.evaluations, request.axes) == ("rmsnorm", 10, ("registers",))
    assert read_request(sent()).axes is None
    asking = read_request(sent(models=["ada, bob"], calls=["9"])).llm
    assert asking is not None and (asking.backends, asking.calls, asking.usd) == (("ada", "bob"), 9, None)


def test_a_spec_may_be_pasted_in_json_or_toml() -> None:
    document = records.OPERATOR.model_dump_json(exclude_defaults=True)
    pasted = read_request(sent(operator=[PASTED], spec=[document]))
    assert isinstance(pasted.operator, dict) and pasted.operator["name"] == "double"
    assert read_request(sent(operator=["rmsnorm"], spec=[document])).operator == pasted.operator
    toml = read_request(sent(operator=[PASTED], spec=['name = "double"\nentry = "double"\n']))
    assert toml.operator == {"name": "double", "entry": "double"}


@pytest.mark.parametrize(
    "changes, field, said",
    [
        ({"operator": [PASTED], "spec": [""]}, "operator", "paste a spec"),
        ({"operator": [PASTED], "spec": ["{]"]}, "spec", "neither valid TOML nor valid JSON"),
        ({"evaluations": ["ten"]}, "evaluations", "whole number"),
        ({"evaluations": ["0"]}, "evaluations", "must be 1 or more"),
        ({"devices": []}, "devices", "needs at least 1 item"),
        ({"emitters": []}, "emitters", "needs at least 1 item"),
        ({"models": ["ada"], "usd": ["much"]}, "usd", "must be a number"),
        ({"models": ["x" * 65]}, "models", "at most 64 characters"),
    ],
)
def test_what_is_wrong_is_said_at_its_field(changes: dict[str, list[str]], field: str, said: str) -> None:
    with pytest.raises((InvalidInput, ValidationError)) as caught:
        read_request(sent(**changes))
    assert isinstance(caught.value, InvalidInput | ValidationError)
    assert said in wrong_fields(caught.value)[field]


def test_what_is_folded_away_is_seen_when_it_is_wrong() -> None:
    assert not start_form([], []).unfolded
    assert not start_form([], [], sent(), {"evaluations": "bad"}).unfolded
    assert start_form([], [], sent(), {"evaluations": "bad", "usd": "bad"}).unfolded


def test_what_is_wrong_inside_a_spec_is_said_at_the_spec() -> None:
    assert wrong_fields(InvalidInput("no dtype", "inputs[0].dtype")) == {"spec": "no dtype"}
    assert wrong_fields(InvalidInput("unknown", "devices")) == {"devices": "unknown"}
    assert wrong_fields(InvalidInput("no such backend", "llm.backends")) == {"models": "no such backend"}


def test_the_form_offers_what_there_is_and_keeps_what_was_written() -> None:
    empty = start_form(["softmax", "rmsnorm"], ["h200", "model:sm_90"])
    assert empty.operators == ("rmsnorm", "softmax") and empty.devices[0].name == "h200"
    assert empty.first_wrong == "" and all(offer.meaning for offer in empty.axes)
    again = start_form(["rmsnorm"], [], sent(evaluations=["x"]), {"seed": "bad", "evaluations": "bad"})
    assert (again.evaluations, again.chosen_emitters, again.first_wrong) == ("x", ("tune",), "evaluations")


PROBLEM = """import torch
import torch.nn as nn

class Model(nn.Module):
    def forward(self, x):
        return torch.relu(x)

def get_inputs():
    return [torch.rand(16, 1024)]

def get_init_inputs():
    return []
"""


async def test_a_problem_of_kernelbench_becomes_a_spec() -> None:
    told: list[str] = []
    # Pasted text counts, although the form chooses an operator of the list.
    request = read_request(await convert_problem(sent(spec=[PROBLEM], problem_name=["rectifier"]), told.append))
    assert told == ["Inspecting it in a sandbox", "TorchInductor writes a seed kernel"]
    assert isinstance(request.operator, dict) and request.operator["name"] == "rectifier"
    assert "class Model" in str(request.operator["reference"]) and "@triton.jit" in str(request.operator["seeds"])


async def test_a_pasted_function_and_a_spec_without_a_seed_become_whole_specs() -> None:
    pasted = sent(spec=[FUNCTION], problem_name=["gated"])
    assert has_problem(pasted) and problem_name(sent(spec=[FUNCTION])) == "gated"
    request = read_request(await convert_problem(pasted))
    assert isinstance(request.operator, dict) and request.operator["name"] == "gated"
    bare = json.dumps({**request.operator, "seeds": []})
    told: list[str] = []
    seeded = read_request(await convert_problem(sent(spec=[bare]), told.append))
    assert isinstance(seeded.operator, dict) and "@triton.jit" in str(seeded.operator["seeds"])
    assert told == ["TorchInductor writes a seed kernel"] and not has_problem(sent(spec=[json.dumps(seeded.operator)]))


def test_a_pasted_problem_has_a_name_that_people_know() -> None:
    assert problem_name(sent(spec=[PROBLEM])).startswith("problem_")
    titled = PROBLEM.replace(
        "(nn.Module):\n", '(nn.Module):\n    """Simple model that performs a ReLU activation."""\n'
    )
    assert problem_name(sent(spec=[titled])) == "relu_activation"
    with pytest.raises(InvalidInput, match="begin with a letter") as caught:
        problem_name(sent(problem_name=["Not a name"]))
    assert set(wrong_fields(caught.value)) == {"problem_name"}


async def test_a_problem_that_cannot_be_searched_for_is_told_why() -> None:
    random = PROBLEM.replace("torch.relu(x)", "torch.dropout(x, 0.5, True)")
    with pytest.raises(InvalidInput, match="draws random numbers") as caught:
        await convert_problem(sent(operator=[PASTED], spec=[random]))
    assert "draws random numbers" in wrong_fields(caught.value)["spec"]
    with pytest.raises(InvalidInput, match="no class of NVIDIA cards"):
        await convert_problem(sent(operator=[PASTED], spec=[PROBLEM], devices=["abacus"]))


def test_a_card_is_offered_only_where_one_has_joined() -> None:
    without, beside = start_form([], ["model:sm_90"]), start_form([], ["h200", "model:sm_90"])
    assert {offer.name.partition(":")[0] for offer in without.devices} == {"model"}
    assert "No worker with a GPU" in without.note
    assert beside.devices[0].name == "h200" and beside.note == ""
    first, second = start_form([], ["a10", "h200"], unverified=("a10",)).devices[:2]
    assert "unverified: no controls have passed" in first.meaning and "unverified" not in second.meaning
