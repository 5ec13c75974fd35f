"""Examples are what the schemas say, and every main answer and every request has one."""

from typing import Any

import pytest

from kernelreef import models
from service.api import builders
from service.api.examples import EXAMPLES
from service.app import create_app
from service.settings import Settings


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_an_answer(name: str) -> None:
    kind = getattr(builders if name == "MutationResult" else models, name)
    shown = kind.model_validate(EXAMPLES[name])
    assert kind.model_validate_json(shown.model_dump_json()) == shown


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return create_app(Settings()).openapi()


def test_every_request_has_an_example(document: dict[str, Any]) -> None:
    lacking = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                if "examples" not in resolved(document, content["schema"]) and "example" not in content:
                    lacking.append(f"{method} {path}")
    assert lacking == []


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_document_shows_the_examples(document: dict[str, Any], name: str) -> None:
    (shown,) = document["components"]["schemas"][name]["examples"]
    assert shown and set(shown) <= set(EXAMPLES[name])  # Nulls are left out of the document.


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> dict[str, Any]:
    """What a schema refers to; of a body that may be left out, the one that may be there."""
    schema = next((each for each in schema.get("anyOf", ()) if "$ref" in each), schema)
    if "$ref" not in schema:
        return schema
    return document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
