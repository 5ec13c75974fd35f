"""A request says what a search needs and nothing else; what is left out has a default."""

import pytest
from pydantic import ValidationError

from service.requests import SearchRequest


def test_an_operator_is_enough() -> None:
    request = SearchRequest(operator="rmsnorm")
    assert request.devices == ("model:sm_90",)
    assert request.emitters == ("tune", "rewrite")
    assert (request.axes, request.budget, request.seed) == (None, 200, 0)


def test_an_operator_may_be_a_spec() -> None:
    spec = {"name": "double", "inputs": [{"name": "x", "shape": ["N"]}], "scale": 1.5}
    assert SearchRequest(operator=spec).operator == spec


def test_a_request_never_changes() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        SearchRequest(operator="rmsnorm").budget = 3


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
        ({"budget": 0}, ("budget",)),
        ({"budget": 1_000_001}, ("budget",)),
        ({"seed": -1}, ("seed",)),
        ({"seed": 2**63}, ("seed",)),
        ({"evaluations": 3}, ("evaluations",)),
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
