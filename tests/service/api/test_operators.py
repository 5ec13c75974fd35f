"""Operators over HTTP: the catalogue, and those that came with a search."""

import httpx
import pytest

from service.catalogue import load_catalogue
from tests.service import records
from workers.protocol import Operator

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_list_holds_catalogue_and_submitted_operators(client: httpx.AsyncClient, filled) -> None:
    items = (await client.get("/operators")).json()["items"]
    assert [item["name"] for item in items] == sorted([*load_catalogue(), "double"])
    double = next(item for item in items if item["name"] == "double")
    assert not double["catalogue"]
    assert double["digest"] == filled.search.operator
    assert (double["inputs"], double["outputs"], double["dimensions"], double["shapes"]) == (["x"], ["y"], ["N"], 2)
    assert all(item["catalogue"] for item in items if item["name"] != "double")


async def test_operators_come_by_pages(client: httpx.AsyncClient) -> None:
    names, cursor = [], None
    while True:
        page = (await client.get("/operators", params={"limit": 4, **({"cursor": cursor} if cursor else {})})).json()
        names += [item["name"] for item in page["items"]]
        if (cursor := page["next"]) is None:
            break
    assert names == [item["name"] for item in (await client.get("/operators")).json()["items"]]


async def test_an_operator_is_shown_whole(client: httpx.AsyncClient) -> None:
    shown = (await client.get("/operators/rmsnorm")).json()
    assert Operator.model_validate(shown) == load_catalogue()["rmsnorm"]


async def test_a_submitted_operator_is_shown_too(client: httpx.AsyncClient, filled) -> None:
    assert Operator.model_validate((await client.get("/operators/double")).json()) == records.OPERATOR
    assert filled.search.operator_name == "double"


@pytest.mark.parametrize("name", ["nothing", "No-Name", "%00", "a" * 65])
async def test_an_unknown_operator_is_not_found(client: httpx.AsyncClient, name: str) -> None:
    assert (await client.get(f"/operators/{name}")).status_code == 404
