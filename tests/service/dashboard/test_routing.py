import httpx
import pytest
from fastapi.routing import APIRoute
from starlette.requests import Request

from service.api.dependencies import RequireScope
from service.api.paging import encode
from service.dashboard import PARTS
from service.dashboard.routing import LINKS, SubmittedForm, frame_of
from service.errors import InvalidInput
from service.security.identity import LOCAL, Identity
from service.security.scopes import Scope
from tests.service.dashboard.conftest import Filled, Service
from tests.service.dashboard.reading import read


def test_a_form_knows_its_fields() -> None:
    form = SubmittedForm(
        {"name": [" x "], "several": ["a", "", "b"], "text": ["one\r\ntwo"], "number": ["1,000"], "bad": ["-1"]}
    )
    assert (form.text("name"), form.text("none"), form.several("several")) == ("x", "", ("a", "b"))
    assert (form.whole("text"), form.number("number")) == ("one\ntwo", 1000)
    for name in ("bad", "none"):
        with pytest.raises(InvalidInput) as caught:
            form.number(name)
        assert caught.value.field == name


async def test_the_frame_shows_what_the_caller_may_see() -> None:
    def asked(**state: object) -> Request:
        return Request({"type": "http", "state": state, "headers": [], "query_string": b""})

    everything = await frame_of(asked(caller=LOCAL))
    reader = await frame_of(asked(caller=Identity("t", "ada", frozenset({Scope.READ})), csrf="secret"))
    assert len(everything.links) == len(LINKS) and everything.caller == ""
    assert (reader.caller, reader.csrf, reader.may("steer")) == ("ada", "secret", False)
    assert "/tokens" not in dict(reader.links)
    assert (await frame_of(asked())).links == ()


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_no_form_is_refused(service: Service, pages: httpx.AsyncClient) -> None:
    fields = "&".join(f"field{number}=1" for number in range(600))
    assert "the request is not a form" in read(await pages.post("/searches", content=fields.encode()), 422).text


def test_every_page_but_the_login_states_what_it_needs() -> None:
    routes = [route for part in PARTS for route in part.router.routes if isinstance(route, APIRoute)]
    open_to_all = {
        route.path
        for route in routes
        if not any(isinstance(each.dependency, RequireScope) for each in route.dependencies)
    }
    assert len(routes) > 20 and open_to_all == {"/login"}
    assert [route.path for route in routes if route.include_in_schema] == []


@pytest.mark.parametrize("before", [-1, 2**63, 10**30])
async def test_beyond_what_a_database_counts_there_is_nothing(
    pages: httpx.AsyncClient, filled: Filled, before: int
) -> None:
    assert "no page at" in read(await pages.get(f"/audit?before={before}"), 404).text
    forged = f"/searches/{filled.search.id}/candidates?after={encode(('-created', before))}"
    if before < 0:
        assert "No candidate matches" in read(await pages.get(forged)).text
    else:
        assert "the cursor is invalid" in read(await pages.get(forged), 422).text
