"""Operators over HTTP: the catalogue, and those that came with a search."""

import httpx
import pytest

from service.operators.catalogue import load_catalogue
from tests.service import records
from workers.protocol import MutationReport, Operator

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


async def test_an_operator_is_handed_in_and_searched_for_by_name_and_digest(client: httpx.AsyncClient) -> None:
    spec = {**records.OPERATOR.model_dump(mode="json"), "name": "twofold"}
    answer = await client.post("/operators", json=spec)
    assert (answer.status_code, answer.json()["catalogue"]) == (201, False)
    digest = answer.json()["digest"]
    assert answer.headers["location"] == f"/api/v1/operators/{digest}"
    for name in ("twofold", digest):
        assert (await client.get(f"/operators/{name}")).json()["name"] == "twofold"
        search = await client.post("/searches", json={"operator": name})
        assert (search.status_code, search.json()["operator_digest"]) == (202, digest)


async def test_what_cannot_be_handed_in_is_said(client: httpx.AsyncClient) -> None:
    spec = records.OPERATOR.model_dump(mode="json")
    wrong = await client.post("/operators", json={**spec, "entry": "triple"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "body.reference")
    taken = await client.post("/operators", json={**spec, "name": "rmsnorm"})
    assert (taken.status_code, "another name" in taken.json()["detail"]) == (409, True)


async def test_the_catalogue_can_be_told_from_the_rest(client: httpx.AsyncClient, filled) -> None:
    own = (await client.get("/operators", params={"catalogue": True})).json()["items"]
    assert [item["name"] for item in own] == sorted(load_catalogue())
    others = (await client.get("/operators", params={"catalogue": False})).json()["items"]
    assert filled.search.operator_name in [item["name"] for item in others]
    assert not {item["name"] for item in others} & set(load_catalogue())


async def test_the_gate_s_result_is_shown_once_there_is_one(client: httpx.AsyncClient, service, filled) -> None:
    answer = await client.get("/operators/double/mutation-report")
    assert (answer.status_code, "no mutation report yet" in answer.json()["detail"]) == (404, True)
    gate = MutationReport(verdict="passed", kill_rate=1.0)
    await service.coordinator.store.operators.keep_mutation_report(
        filled.search.operator, gate.verdict, gate.model_dump_json()
    )
    shown = (await client.get("/operators/double/mutation-report")).json()
    assert (shown["operator"], MutationReport.model_validate(shown["mutation_report"])) == ("double", gate)
