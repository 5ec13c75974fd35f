"""Models of the wire: read-only, tolerant of fields that a later service adds, and in need of no room."""

import subprocess

import pytest
from pydantic import ValidationError

from kernelreef.models import Hint, Search
from service.api.builders import search_of
from tests.service import records
from workers.safe_python import PYTHON


def test_they_need_no_room() -> None:
    code = "import sys, kernelreef.models; print(sorted({'archive', 'workers', 'service', 'httpx'} & set(sys.modules)))"
    assert subprocess.run((*PYTHON, "-c", code), capture_output=True, text=True, check=True).stdout == "[]\n"


def test_a_model_goes_over_the_wire_and_back() -> None:
    search = search_of(records.search())
    assert Search.model_validate_json(search.model_dump_json()) == search


def test_a_field_that_a_later_service_adds_is_passed_over() -> None:
    document = search_of(records.search()).model_dump(mode="json")
    assert Search.model_validate({**document, "mood": "good"}) == Search.model_validate(document)


def test_what_was_read_is_not_changed() -> None:
    search = search_of(records.search())
    with pytest.raises(ValidationError, match="frozen"):
        search.reason = "another"
    with pytest.raises(ValidationError, match="created_at"):
        Hint.model_validate({"id": "1", "search": "2", "text": "wider loads", "author": "ada"})
