"""What routes are handed: only a well-formed id reaches the archive."""

import re

import pytest
from starlette.requests import Request
from uuid6 import uuid7

from service.api.paging import ID
from service.api.wiring import coordinator_of


def test_ids_that_we_make_are_ids() -> None:
    assert all(ID.fullmatch(str(uuid7())) for _ in range(100))


@pytest.mark.parametrize(
    "text", ["", "x", "0190A000-0000-7000-8000-000000000000", "0190a000-0000-7000-8000-000000000000\n"]
)
def test_what_is_no_id_is_none(text: str) -> None:
    assert re.fullmatch(ID, text) is None


@pytest.mark.asyncio(loop_scope="module")
async def test_routes_get_the_coordinator_that_runs(service) -> None:
    assert coordinator_of(Request({"type": "http", "app": service.app})) is service.coordinator
