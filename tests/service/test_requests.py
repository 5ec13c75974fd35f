"""A request says what a search needs and nothing else; what is left out has a default."""

import pytest
from pydantic import ValidationError

from service.operators.catalogue import parse_operator
from service.requests import HintRequest, OperatorSubmission, PinRequest, SearchChange, SearchRequest


def test_an_operator_is_enough() -> None:
    request = SearchRequest(operator="rmsnorm")
    assert request.devices == ("model:sm_90",)
    assert request.emitters == ("tune", "rewrite")
    assert (request.axes, request.evaluations, request.seed) == (None, 200, 0)


def test_an_operator_may_be_a_spec() -> None:
    spec = {"name": "double", "inputs": [{"name": "x", "shape": ["N"]}], "scale": 1.5}
    assert SearchRequest(operator=spec).operator == spec


def test_a_request_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        SearchRequest(operator="rmsnorm").evaluations = 3


@pytest.mark.parametrize(
    ("change", "place"),
    [
        ({"operator": ""}, ("operator", "name")),
        ({"operator": 7}, ("operator",)),
        ({"operator": "\ud800"}, ("operator", "name")),
        ({"devices": []}, ("devices",)),
        ({"devices": ["model:sm_90"] * 17}, ("devices",)),
        ({"emitters": ["tune", ""]}, ("emitters", 1)),
        ({"axes": []}, ("axes",)),
        ({"evaluations": 0}, ("evaluations",)),
        ({"evaluations": 1_000_001}, ("evaluations",)),
        ({"seed": -1}, ("seed",)),
        ({"seed": 2**63}, ("seed",)),
        ({"limit": 3}, ("limit",)),
        ({"llm": {}}, ("llm",)),
        ({"llm": {"backends": []}}, ("llm",)),
        ({"llm": {"agents": ["a"], "usd": 1.0}}, ("llm",)),
        ({"llm": {"backends": ["a"], "calls": 0}}, ("llm", "calls")),
        ({"llm": {"backends": ["a"], "tokens": 0}}, ("llm", "tokens")),
        ({"llm": {"backends": ["a"], "usd": 0}}, ("llm", "usd")),
        ({"llm": {"backends": ["a"], "usd": float("nan")}}, ("llm", "usd")),
        ({"llm": {"backends": ["a"], "base_url": "http://10.0.0.1"}}, ("llm", "base_url")),
    ],
)
def test_what_cannot_be_right_is_refused_by_name(change: dict[str, object], place: tuple[str | int, ...]) -> None:
    with pytest.raises(ValidationError) as caught:
        SearchRequest.model_validate({"operator": "rmsnorm", **change})
    assert [error["loc"] for error in caught.value.errors()] == [place]


def test_a_spec_nested_without_end_is_refused() -> None:
    spec: dict[str, object] = {}
    for _ in range(5000):
        spec = {"deeper": spec}
    with pytest.raises((ValidationError, RecursionError)):
        SearchRequest.model_validate({"operator": spec})


def test_a_pin_names_a_cell_or_a_candidate() -> None:
    assert PinRequest(cell=0).cell == 0
    for wrong in ({}, {"cell": 1, "candidate": "0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12"}, {"candidate": "x"}):
        with pytest.raises(ValidationError):
            PinRequest.model_validate(wrong)


def test_a_hint_is_a_few_words_without_space_around() -> None:
    assert HintRequest(text="  try wider loads \n").text == "try wider loads"
    for wrong in ("", "  ", "x" * 2001):
        with pytest.raises(ValidationError):
            HintRequest(text=wrong)


@pytest.mark.parametrize("kind", [SearchRequest, SearchChange, PinRequest, HintRequest, OperatorSubmission])
def test_examples_are_requests(kind) -> None:
    examples = kind.model_json_schema()["examples"]
    assert examples and all(kind.model_validate(example) for example in examples)


def test_the_example_of_an_operator_is_one() -> None:
    (example,) = OperatorSubmission.model_json_schema()["examples"]
    assert parse_operator(example).name == "double"


def test_what_may_be_asked_of_models() -> None:
    terms = SearchRequest.model_validate({"operator": "rmsnorm", "llm": {"backends": ["a"], "usd": 5}}).llm
    assert terms is not None
    assert (terms.backends, terms.strategies, terms.calls, terms.tokens, terms.usd) == (("a",), (), None, None, 5.0)
