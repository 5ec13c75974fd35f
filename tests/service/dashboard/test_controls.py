import httpx
import pytest

from archive.records import SearchState
from service.evaluation.admissions import NOT_ADMITTED
from service.requests import SearchRequest
from service.security.scopes import Scope
from tests.service.api.guarding import bearer, guarded
from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_a_search_is_steered_by_forms(pages: httpx.AsyncClient, service: Service, hostile: Hostile) -> None:
    store, path = service.coordinator.store, f"/searches/{hostile.search.id}"
    for action, fields in (
        ("evaluations", {"evaluations": "400"}),
        ("pins", {"cell": "4", "device": "model:sm_90"}),
        ("hints", {"text": "Rows fit\r\ninto shared memory."}),
    ):
        answer = await pages.post(f"{path}/{action}", data=fields)
        assert (answer.status_code, answer.headers["location"]) == (303, path)
    assert (await store.searches.get(hostile.search.id)).evaluations == 400
    pin = (await store.pins.list(hostile.search.id))[-1]
    hint = (await store.hints.list(hostile.search.id))[-1]
    assert (pin.cell, hint.text, hint.author) == (4, "Rows fit\ninto shared memory.", "local")
    read(await pages.get(path))
    for thing in (f"pins/{pin.id}", f"hints/{hint.id}"):
        assert (await pages.post(f"{path}/{thing}/remove")).status_code == 303
    assert pin not in await store.pins.list(hostile.search.id)
    assert hint not in await store.hints.list(hostile.search.id)


@pytest.mark.parametrize(
    "action, fields, said",
    [
        ("evaluations", {"evaluations": "many"}, "enter a whole number"),
        ("evaluations", {"evaluations": "0"}, "must be 1 or more"),
        ("pins", {"cell": "31"}, "the grid has 30 cells"),
        ("pins", {"cell": ""}, "either a cell or a candidate"),
        ("hints", {"text": "  "}, "must not be empty"),
    ],
)
async def test_what_cannot_be_says_why(
    pages: httpx.AsyncClient, hostile: Hostile, action: str, fields: dict[str, str], said: str
) -> None:
    answer = await pages.post(f"/searches/{hostile.search.id}/{action}", data=fields)
    assert said in read(answer, 422).text


async def test_buttons_move_a_search_and_say_when_they_cannot(
    pages: httpx.AsyncClient, service: Service, filled: Filled, hostile: Hostile
) -> None:
    assert "it cannot become paused" in read(await pages.post(f"/searches/{filled.search.id}/pause"), 409).text
    assert "no action" in read(await pages.post(f"/searches/{filled.search.id}/explode"), 404).text
    assert (await pages.post(f"/searches/{hostile.search.id}/resume")).status_code == 303
    assert (await pages.post(f"/searches/{hostile.search.id}/pause")).status_code == 303
    found = await service.coordinator.store.searches.get(hostile.search.id)
    assert found.state is SearchState.PAUSED


async def test_another_site_cannot_steer(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    elsewhere = {"Origin": "http://elsewhere.example", "Sec-Fetch-Site": "cross-site"}
    answer = await pages.post(f"/searches/{hostile.search.id}/stop", headers=elsewhere)
    assert answer.status_code == 403


async def test_a_search_is_labelled_started_again_and_deleted(pages: httpx.AsyncClient, service: Service) -> None:
    store = service.coordinator.store
    first = await service.coordinator.submit(SearchRequest(operator="rmsnorm", axes=("num_warps",), evaluations=7))
    answer = await pages.post(f"/searches/{first.id}/again")
    assert answer.status_code == 303
    twin = answer.headers["location"].rpartition("/")[2]
    assert twin != first.id
    fields = {"name": " For the report ", "tags": "paper, h200", "notes": "Line 1\r\nLine 2"}
    assert (await pages.post(f"/searches/{twin}/labels", data=fields)).status_code == 303
    found = await store.searches.get(twin)
    assert (found.operator, found.axes, found.evaluations) == (first.operator, first.axes, 7)
    assert (found.name, found.tags, found.notes) == ("For the report", ("paper", "h200"), "Line 1\nLine 2")
    page = read(await pages.get(f"/searches/{twin}"))
    assert "For the report" in page.text and "h200" in page.text
    assert "at most 100" in read(await pages.post(f"/searches/{twin}/labels", data={"name": "x" * 101}), 422).text
    assert (await pages.post(f"/searches/{twin}/delete")).status_code == 409
    for id in (first.id, twin):
        await pages.post(f"/searches/{id}/stop")
    assert (await pages.post(f"/searches/{twin}/delete")).headers["location"] == "/"
    read(await pages.get(f"/searches/{twin}"), 404)


async def test_a_done_search_goes_on_with_more_evaluations(pages: httpx.AsyncClient, service: Service) -> None:
    store = service.coordinator.store
    search = await service.coordinator.submit(SearchRequest(operator="rmsnorm", evaluations=7))
    await store.searches.set_state(search.id, SearchState.DONE)
    path = f"/searches/{search.id}"
    for limit, status in (("0", 422), ("many", 422), ("14", 303)):
        assert (await pages.post(f"{path}/extend", data={"evaluations": limit})).status_code == status
    found = await store.searches.get(search.id)
    assert found.evaluations == 14 and found.state is not SearchState.DONE
    await pages.post(f"{path}/stop")
    assert (await pages.post(f"{path}/extend", data={"evaluations": "20"})).status_code == 409


async def test_a_search_that_mutation_testing_ended_goes_on_if_an_admin_says_so(
    pages: httpx.AsyncClient, service: Service
) -> None:
    store = service.coordinator.store
    search = await service.coordinator.submit(SearchRequest(operator="rmsnorm", evaluations=7))
    path = f"/searches/{search.id}"
    for reason, is_offered in (("the reference does not export: no", False), (f"{NOT_ADMITTED}: zeros pass", True)):
        await store.searches.set_state(search.id, SearchState.FAILED, reason=reason)
        boxes = [box for box in read(await pages.get(path)).all("input") if box.get("name") == "admit"]
        assert bool(boxes) is is_offered
    again = await pages.post(f"{path}/again", data={"admit": "yes"})
    twin = await store.searches.get(again.headers["location"].rpartition("/")[2])
    assert twin.admit and not search.admit
    assert (await store.searches.get((await pages.post(f"{path}/again")).headers["location"][10:])).admit is False
    form = read(await pages.get(f"/?origin={twin.id}"))
    assert [box for box in form.all("input") if box.get("name") == "admit" and "checked" in box]


async def test_only_an_admin_may_admit_on_pages(service: Service) -> None:
    search = await service.coordinator.submit(SearchRequest(operator="rmsnorm", evaluations=7))
    scopes = {Scope.READ, Scope.SUBMIT}
    headers = {"Accept": "text/html", **await bearer(service.coordinator.store, scopes)}
    form = {"operator": "rmsnorm", "evaluations": "7", "seed": "0", "devices": "model:sm_90", "emitters": "tune"}
    async with guarded(service.coordinator) as client:
        for path in ("/searches", f"/searches/{search.id}/again"):
            assert (await client.post(path, data=form, headers=headers)).status_code == 303
            refused = await client.post(path, data={**form, "admit": "yes"}, headers=headers)
            assert refused.status_code == 403 and "needs the scope &#39;admin&#39;" in refused.text
        assert 'name="admit"' not in (await client.get("/", headers=headers)).text
