"""The page of the REST interface shows every route of the document, and forms for all that can be tried."""

import httpx
import pytest

from service.app import create_app
from service.dashboard.interface import documented, kind_of
from service.settings import Settings

DOCUMENT = create_app(Settings()).openapi()
ROUTES = {route.id: route for _, route in documented(DOCUMENT)}


@pytest.mark.asyncio(loop_scope="module")
async def test_every_route_is_on_the_page(pages: httpx.AsyncClient) -> None:
    answer = await pages.get("/docs")
    assert answer.status_code == 200
    for route in ROUTES.values():
        assert f'<details id="{route.id}">' in answer.text
        assert (f'data-method="{route.method}" data-path="{route.path}"' in answer.text) is route.sent
    assert "default-src 'none'" in answer.headers["content-security-policy"]
    # Scripts and styles are ours: nothing comes from another host.
    assert "https://" not in answer.text and "<script>" not in answer.text


def test_routes_are_described_in_full() -> None:
    assert {f"{route.method} {route.path}" for route in ROUTES.values()} == {
        f"{method.upper()} {path}" for path, item in DOCUMENT["paths"].items() for method in item
    }
    submit = ROUTES["searches_submit"]
    assert (submit.scope, submit.method, submit.sent) == ("submit", "POST", True)
    assert submit.example is not None and '"operator": "rmsnorm"' in submit.example
    fields = {field.name: field for field in submit.fields}
    assert fields["operator"].required and not fields["evaluations"].required
    assert fields["evaluations"].kind == "integer, default 200"
    assert "budget" not in fields
    assert ("202", "Search") in submit.answers
    found = {field.name: field for field in ROUTES["searches_find"].parameters}
    assert found["sort"].kind.startswith("-created | created") and found["tag"].kind == "array of string, default []"
    assert not ROUTES["searches_events"].sent and not ROUTES["archives_download"].sent
    assert ROUTES["health_alive"].scope == "" and ROUTES["health_alive"].example is None


def test_types_are_told_in_words() -> None:
    assert kind_of({"anyOf": [{"type": "string"}, {"type": "null"}]}) == "string or null"
    assert kind_of({"type": "array", "items": {"$ref": "#/components/schemas/Elite"}}) == "array of Elite"
    assert kind_of({}) == "any"
