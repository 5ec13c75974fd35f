"""Former names of fields are read, written beside the current ones, and marked in the schema."""

import json
from collections.abc import Mapping
from typing import ClassVar

import pytest
from pydantic import ConfigDict, ValidationError

from kernelreef.former import ReadsFormerNames, ShowsFormerNames


class Asked(ReadsFormerNames):
    model_config = ConfigDict(extra="forbid")
    former: ClassVar[Mapping[str, str]] = {"evaluations": "budget"}

    evaluations: int = 200


class Part(ShowsFormerNames):
    former: ClassVar[Mapping[str, str]] = {"trials": "tries"}

    trials: int


class Whole(ShowsFormerNames):
    parts: tuple[Part, ...]


@pytest.mark.parametrize(
    ("given", "evaluations"),
    [({}, 200), ({"budget": 3}, 3), ({"evaluations": 3}, 3), ({"budget": 4, "evaluations": 3}, 3)],
)
def test_a_request_may_use_either_name(given: dict[str, int], evaluations: int) -> None:
    assert Asked.model_validate(given).evaluations == evaluations
    assert Asked.model_validate_json(json.dumps(given)).model_dump() == {"evaluations": evaluations}


def test_what_was_never_a_name_is_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs"):
        Asked.model_validate({"budget": 3, "limit": 3})


def test_an_answer_has_both_names_wherever_it_is_nested() -> None:
    shown = Whole(parts=(Part(trials=2),)).model_dump_json()
    assert json.loads(shown) == {"parts": [{"trials": 2, "tries": 2}]}
    assert Whole.model_validate_json('{"parts": [{"tries": 7}]}').parts[0].trials == 7


def test_the_schema_marks_former_names_as_deprecated_and_does_not_require_them() -> None:
    shown = Whole.model_json_schema(mode="serialization")["$defs"]["Part"]
    assert shown["properties"]["tries"] == {**shown["properties"]["trials"], "title": "Tries", "deprecated": True}
    assert shown["required"] == ["trials"]
    assert Asked.model_json_schema()["properties"]["budget"]["deprecated"] is True
