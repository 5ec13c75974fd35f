"""Validation errors name the field as it was written, and a valid value, never pydantic's own terms."""

import re
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from uuid import UUID

import pytest
from pydantic import BaseModel, ConfigDict, Discriminator, Field, RootModel, StringConstraints, Tag, ValidationError

from kernelreef.validation import faults, invalid, nearest
from service.requests import SearchRequest

PYDANTIC = re.compile(r"should|Extra inputs|Field required|validation error|valid \w+$|Tuple|pydantic")
"""Words of pydantic that no person should have to read."""


class Colour(StrEnum):
    RED = "red"


class Inner(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(default=1, ge=1, le=9)
    name: Annotated[str, StringConstraints(min_length=1, max_length=4, pattern="^[a-z]*$")] = "a"


class Outer(BaseModel):
    """A document with a field of each kind that our requests, specs and settings have."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)

    count: int = 0
    share: Annotated[float, Field(gt=0, lt=1)] = 0.5
    flag: bool = False
    names: Annotated[tuple[str, ...], Field(min_length=1, max_length=2)] = ("a",)
    inner: Inner | None = None
    several: list[Inner] = []
    by_name: Mapping[str, Inner] = {}
    pair: tuple[int, int] = (1, 1)
    extent: str | Annotated[int, Field(ge=1)] = 1
    colour: Colour = Colour.RED
    form: Literal["one", "two"] = "one"
    at: datetime | None = None
    id: UUID | None = None
    choice: (
        Annotated[Annotated[int, Tag("number")] | Annotated[Inner, Tag("spec")], Discriminator(lambda given: "spec")]
        | None
    ) = None


class Whole(RootModel[Outer]):
    pass


CASES: list[tuple[dict[str, object], str, str]] = [
    ({"count": "many"}, "count", "must be a whole number, not 'many'"),
    ({"count": 1.5}, "count", "must be a whole number, not 1.5"),
    ({"count": [1]}, "count", "must be a whole number, not [1]"),
    ({"share": "half"}, "share", "must be a number, not 'half'"),
    ({"share": 0}, "share", "must be more than 0, not 0"),
    ({"share": 2}, "share", "must be less than 1, not 2"),
    ({"share": float("inf")}, "share", "must be a finite number, not Infinity"),
    ({"flag": "perhaps"}, "flag", "must be true or false, not 'perhaps'"),
    ({"names": []}, "names", "needs at least 1 item"),
    ({"names": ["a", "b", "c"]}, "names", "may have at most 2 items"),
    ({"names": "a"}, "names", "must be a list, not 'a'"),
    ({"names": [1]}, "names[0]", "must be text, not 1"),
    ({"inner": {"size": 0}}, "inner.size", "must be 1 or more, not 0"),
    ({"inner": {"size": 10}}, "inner.size", "must be at most 9, not 10"),
    ({"inner": {"name": ""}}, "inner.name", "must not be empty"),
    ({"inner": {"name": "abcde"}}, "inner.name", "may have at most 4 characters"),
    ({"inner": {"name": "A"}}, "inner.name", "must match ^[a-z]*$, not 'A'"),
    ({"inner": {"sise": 1}}, "inner.sise", "unknown name; did you mean 'size'?"),
    ({"inner": {"zzzzz": 1}}, "inner.zzzzz", "unknown name; known here: size, name"),
    ({"inner": 3}, "inner", "must be an object with keys, not 3"),
    ({"several": [{}, {"size": "a"}]}, "several[1].size", "must be a whole number, not 'a'"),
    ({"several": {}}, "several", "must be a list, not {}"),
    ({"by_name": {"x": {"nam": "a"}}}, "by_name.x.nam", "unknown name; did you mean 'name'?"),
    ({"by_name": []}, "by_name", "must be an object with keys, not []"),
    ({"pair": [1]}, "pair[1]", "is missing"),
    ({"extent": 0}, "extent", "must be text, not 0"),
    ({"colour": "rde"}, "colour", "'rde' is not one of red; did you mean 'red'?"),
    ({"form": "three"}, "form", "'three' is not one of one, two"),
    ({"at": "now"}, "at", "must be a date and time, such as 2027-01-31T12:00:00Z, not 'now'"),
    ({"id": "7"}, "id", "must be an id, not '7'"),
    ({"choice": {"size": "x"}}, "choice.size", "must be a whole number, not 'x'"),
    ({"cuont": 1}, "cuont", "unknown name; did you mean 'count'?"),
]


def refused(document: type[BaseModel], given: object) -> ValidationError:
    with pytest.raises(ValidationError) as caught:
        document.model_validate(given)
    return caught.value


@pytest.mark.parametrize(("given", "path", "problem"), CASES, ids=[f"{path}: {said}"[:60] for _, path, said in CASES])
@pytest.mark.parametrize("document", [Outer, Whole])
def test_a_fault_names_the_field_and_what_would_be_right(
    document: type[BaseModel], given: dict[str, object], path: str, problem: str
) -> None:
    error = invalid(refused(document, given), document)
    assert (error.field, error.detail) == (path, problem)
    assert not PYDANTIC.search(error.detail)


def test_no_value_is_quoted_where_it_may_be_a_secret() -> None:
    for given, _, _ in CASES:
        detail = invalid(refused(Outer, given), Outer, secret=True).detail
        assert "not '" not in detail and "many" not in detail and not PYDANTIC.search(detail), detail


def test_every_error_of_a_request_is_told_and_a_misspelt_name_first() -> None:
    error = refused(SearchRequest, {"operator": "gelu", "seed": -1, "devces": ["h200"]})
    assert [fault.path for fault in faults(error.errors(), SearchRequest)] == ["devces", "seed"]
    assert faults(error.errors(), SearchRequest)[0].problem == "unknown name; did you mean 'devices'?"


def test_a_field_of_a_nested_part_is_found_through_unions() -> None:
    error = refused(SearchRequest, {"operator": 7, "stop": {"platau": 3}, "llm": {"backends": []}})
    told = {fault.path: fault.problem for fault in faults(error.errors(), SearchRequest)}
    assert told == {
        "stop.platau": "unknown name; did you mean 'plateau'?",
        "operator": "write a catalogue name, or a spec as an object",
        "llm": "name at least one backend, or one agent",
    }


def test_a_document_that_is_not_json_says_where() -> None:
    with pytest.raises(ValidationError) as caught:
        Outer.model_validate_json("{")
    error = invalid(caught.value, Outer)
    assert error.field is None and error.detail.startswith("is not valid JSON: EOF while parsing")


def test_a_long_value_is_shortened() -> None:
    assert len(invalid(refused(Outer, {"count": "x" * 9000}), Outer).detail) < 150


def test_nearest_is_silent_where_nothing_is_near() -> None:
    assert nearest("rmsnrm", ["rmsnorm", "softmax"]) == "; did you mean 'rmsnorm'?"
    assert nearest("zzz", ["rmsnorm", "softmax"]) == ""
