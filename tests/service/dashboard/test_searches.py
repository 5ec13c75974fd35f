import httpx
import pytest
from starlette.requests import Request

from archive.records import SearchState
from service.dashboard.maps import MapView
from service.dashboard.rendering import PageFrame
from service.dashboard.search import load_search
from service.dashboard.searches import BestResult, load_overview_parts, search_live
from tests.service.dashboard.conftest import Filled, Hostile, Service
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_searches_come_newest_first_with_what_they_found(
    service: Service, filled: Filled, hostile: Hostile
) -> None:
    pool, searches = await load_overview_parts(service.coordinator, None)
    assert [entry.search.id for entry in searches.entries] == [hostile.search.id, filled.search.id]
    assert searches.older is None and searches.newest
    found: BestResult = searches.entries[1].finds[0]
    assert (found.best, found.provenance, found.coverage) == (1.5, "predicted", pytest.approx(2 / 6))
    assert found.spark.line and searches.entries[1].finds[1].spark.line == ""
    assert (pool.workers, pool.busy) == (0, 0)


async def test_what_is_older_is_behind_an_address(service: Service, filled: Filled, hostile: Hostile) -> None:
    _, searches = await load_overview_parts(service.coordinator, hostile.search.id)
    assert [entry.search.id for entry in searches.entries] == [filled.search.id]
    assert not searches.newest


async def test_the_first_page_lists_searches_and_offers_to_start_one(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get("/"))
    assert {"href": f"/searches/{filled.search.id}"} in page.all("a")
    assert "predicted" in page.text and "\u22481.50\u00d7" in page.text
    assert {field["name"] for field in page.all("select")} == {"operator"}
    assert page.all("main")[0]["data-stream"] == "/live"


async def test_a_search_is_shown_with_its_map(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/searches/{filled.search.id}"))
    tiles = [link for link in page.all("a") if "data-inspect" in link]
    assert {link["href"] for link in tiles} == {f"/candidates/{filled.first}", f"/candidates/{filled.best}"}
    assert "PREDICTED for sm_90" in page.text
    assert page.all("main")[0]["data-stream"].startswith(f"/searches/{filled.search.id}/live?device=model")


async def test_another_device_has_a_map_of_its_own(pages: httpx.AsyncClient, filled: Filled) -> None:
    page = read(await pages.get(f"/searches/{filled.search.id}?device=model:sm_80"))
    assert [link for link in page.all("a") if "data-inspect" in link] == []
    assert "no cell is filled yet" in page.text


@pytest.mark.parametrize(
    "query, said",
    [("device=h200", "is not one of: model:sm_90, model:sm_80"), ("x=colour", "is not one of: num_warps")],
)
async def test_a_view_that_cannot_be_says_what_could(
    pages: httpx.AsyncClient, filled: Filled, query: str, said: str
) -> None:
    page = read(await pages.get(f"/searches/{filled.search.id}?{query}"), 422)
    assert said in page.text


@pytest.mark.parametrize("path", ["/searches/nonsense", "/searches/0199a2b0-7c1e-7d3f-8a45-6b7c8d9e0f12"])
async def test_what_is_not_there_is_a_page_too(pages: httpx.AsyncClient, path: str) -> None:
    assert "Page not found" in read(await pages.get(path), 404).text


async def test_a_search_is_started_from_the_form(pages: httpx.AsyncClient, service: Service) -> None:
    form = {
        "operator": "rmsnorm",
        "devices": "model:sm_90",
        "emitters": ["tune"],
        "axes": ["registers", "num_warps"],
        "evaluations": "1,000",
        "seed": "7",
    }
    answer = await pages.post("/searches", data=form)
    assert answer.status_code == 303
    search = await service.coordinator.store.searches.get(answer.headers["location"].rpartition("/")[2])
    assert (search.operator_name, search.evaluations, search.seed, search.emitters) == ("rmsnorm", 1000, 7, ("tune",))
    assert [axis.descriptor for axis in search.axes] == ["registers", "num_warps"]
    await service.coordinator.stop(search.id)


async def test_what_is_wrong_stands_at_its_field_and_what_was_written_stays(pages: httpx.AsyncClient) -> None:
    form = {"operator": "pasted", "spec": "name = <broken>", "devices": "model:sm_90", "evaluations": "12", "seed": "3"}
    page = read(await pages.post("/searches", data=form), 422)
    (spec,) = page.all("textarea")
    assert (spec["aria-invalid"], spec["aria-describedby"]) == ("true", "wrong-spec")
    assert "the spec is neither valid TOML nor valid JSON" in page.text and "name = <broken>" in page.text
    assert {"id": "evaluations", "name": "evaluations", "inputmode": "numeric", "value": "12"} in page.all("input")


async def test_nothing_hostile_gets_through(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    for path in ("/", f"/searches/{hostile.search.id}"):
        page = read(await pages.get(path))
        assert CORPUS[0] in page.text


async def test_updates_begin_with_every_fragment(service: Service, filled: Filled) -> None:
    asked = Request({"type": "http", "query_string": b"device=model:sm_90", "headers": []})
    names = []
    async for update in search_live(filled.search, service.coordinator, PageFrame(), asked):
        names.append(update.data["name"] if update.event == "part" else update.event)
        if update.event == "beat":
            break
    page = await load_search(service.coordinator, filled.search, MapView.of(filled.search, {}))
    assert names == [*page.parts, "beat"]


async def test_done_searches_can_be_labelled_extended_or_deleted(pages: httpx.AsyncClient, filled: Filled) -> None:
    assert filled.search.state is SearchState.DONE
    page = read(await pages.get(f"/searches/{filled.search.id}"))
    offered = [str(form["action"]).rpartition("/")[2] for form in page.all("form") if form.get("method") == "post"]
    assert sorted(offered) == ["delete", "extend", "labels"]


async def test_pages_are_packed_for_those_who_can_unpack(pages: httpx.AsyncClient, filled: Filled) -> None:
    path = f"/searches/{filled.search.id}"
    plain = await pages.get(path, headers={"Accept-Encoding": "identity"})
    packed = await pages.get(path, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in plain.headers and packed.headers["content-encoding"] == "gzip"
    assert packed.text == plain.text and packed.headers["vary"] == "Accept-Encoding"
    assert int(packed.headers["content-length"]) < len(plain.content) / 3


async def test_an_address_that_leads_nowhere_is_a_page_for_people_and_a_problem_for_programs(
    pages: httpx.AsyncClient,
) -> None:
    assert "there is no page at /nowhere" in read(await pages.get("/nowhere"), 404).text
    for path, accept in (("/nowhere", "application/json"), ("/api/v1/nowhere", "text/html")):
        answer = await pages.get(path, headers={"Accept": accept})
        assert answer.status_code == 404 and answer.headers["content-type"] == "application/problem+json"


async def test_a_failure_of_ours_is_a_page_that_gives_nothing_away(pages: httpx.AsyncClient, service: Service) -> None:
    async def fail() -> None:
        raise RuntimeError("postgres://secret")

    service.app.add_api_route("/broken", fail)
    page = read(await pages.get("/broken"), 500)
    assert "see its log for the reason" in page.text and "secret" not in page.text
