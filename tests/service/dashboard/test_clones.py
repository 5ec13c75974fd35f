import json
from dataclasses import replace

import httpx
import pytest

from service.dashboard.clones import request_of
from service.dashboard.new_search import PASTED, filled_in, read_request
from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.dashboard.reading import faults, read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_form_filled_in_from_a_search_asks_for_the_same(service: Service, filled: Filled) -> None:
    llm = {"backends": ["ada"], "strategies": ["rewrite"], "calls": 9, "tokens": 1000, "usd": None}
    search = replace(filled.search, priority=7, stop={"plateau": 5}, llm=llm)
    request = await request_of(service.coordinator, search)
    form = filled_in(request, search.id)
    assert form.text("operator") == PASTED and json.loads(form.whole("spec"))["name"] == search.operator_name
    again = read_request(form, request)
    assert again == request
    assert (again.priority, again.stop, again.llm) == (7, request.stop, request.llm)
    assert again.stop is not None and again.stop.plateau == 5
    assert again.llm is not None and (again.llm.tokens, again.llm.strategies) == (1000, ("rewrite",))
    assert read_request(form).priority != 7, "without its origin the form has only what it shows"


async def test_the_page_offers_the_form_filled_in(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/?origin={filled.search.id}"))
    fields = {str(each.get("name")): each.get("value") for each in page.all("input")}
    assert fields["origin"] == filled.search.id and fields["evaluations"] == str(filled.search.evaluations)


async def test_a_search_with_settings_of_another_release_says_so(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    page = read(await pages.get(f"/?origin={hostile.search.id}"), 422)
    assert "does not accept this setting" in page.text and faults(page) == []
