"""What was found, over HTTP: the map, the elites in order, and the figures of progress."""

import asyncio
from typing import get_args

import httpx
import pytest

from archive.descriptors import DESCRIPTORS
from archive.records import SearchState
from service.api.archives import ELITE_SORTS, EliteSort
from service.api.response_cache import PROGRESS_S
from service.evaluation.jobs import EvaluationCase
from service.evaluation.reports import record
from tests.service import records
from tests.service.api.conftest import Service, fill
from workers.protocol import PROTOCOL_VERSION, CheckResult

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_the_archive_shows_axes_in_words_and_held_cells(client: httpx.AsyncClient, filled) -> None:
    archive = (await client.get(f"/searches/{filled.search.id}/archive")).json()
    assert (archive["device"], archive["provenance"], archive["cells"]) == (records.DEVICE, "predicted", 6)
    assert archive["relative_to"] == "seed kernel"
    (axis,) = archive["axes"]
    known = DESCRIPTORS["num_warps"]
    assert (axis["descriptor"], axis["labels"], axis["edges"]) == ("num_warps", list(known.labels), list(known.edges))
    assert [(elite["cell"], elite["bins"], elite["candidate"]) for elite in archive["elites"]] == [
        (0, [0], filled.first),
        (1, [1], filled.best),
    ]
    best = archive["elites"][1]
    assert best["objective"] == 1.5
    assert best["speedup"] == {"low": 1.5, "mid": 1.5, "high": 1.5}
    assert best["coordinates"] == {"num_warps": {"value": 2.0, "bin": 1}}
    assert best["placed_at"].endswith("Z")


async def test_each_device_has_an_archive_of_its_own(client: httpx.AsyncClient, filled) -> None:
    other = (await client.get(f"/searches/{filled.search.id}/archive", params={"device": "model:sm_80"})).json()
    assert (other["device"], other["elites"]) == ("model:sm_80", [])


@pytest.mark.parametrize(("part", "name"), [("archive", "elites"), ("elites", "items")])
async def test_elites_of_an_older_protocol_are_shown_as_such(
    client: httpx.AsyncClient, filled, part: str, name: str
) -> None:
    shown = (await client.get(f"/searches/{filled.search.id}/{part}")).json()[name]
    told = {elite["candidate"]: (elite["protocol_version"], elite["outdated"]) for elite in shown}
    assert told == {filled.first: (1, True), filled.best: (PROTOCOL_VERSION, False)}


@pytest.mark.parametrize("part", ["archive", "elites"])
async def test_a_device_that_the_search_does_not_use_is_refused(client: httpx.AsyncClient, filled, part: str) -> None:
    answer = await client.get(f"/searches/{filled.search.id}/{part}", params={"device": "h200"})
    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"field": "query.device", "detail": "the devices of this search are: model:sm_90, model:sm_80"}
    ]


async def test_elites_come_best_first_and_by_pages(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/elites"
    everything = (await client.get(address)).json()
    assert [elite["candidate"] for elite in everything["items"]] == [filled.best, filled.first]
    assert everything["next"] is None
    first = (await client.get(address, params={"limit": 1})).json()
    rest = (await client.get(address, params={"limit": 1, "cursor": first["next"]})).json()
    assert first["items"] + rest["items"] == everything["items"]
    assert rest["next"] is None


async def test_progress_counts_candidates_and_shows_each_device(client: httpx.AsyncClient, filled) -> None:
    progress = (await client.get(f"/searches/{filled.search.id}/progress")).json()
    counted = {
        name: progress[name] for name in ("state", "evaluations", "proposals", "candidates", "in_flight", "evaluated")
    }
    assert counted == {
        "state": "done",
        "evaluations": 4,
        "proposals": 4,
        "candidates": 4,
        "in_flight": 1,
        "evaluated": 3,
    }
    assert progress["devices_without_worker"] == [records.DEVICE, "model:sm_80"], "no worker runs here"
    assert progress["missing_workers"] == [], "it has ended"
    assert progress["activity"] == "" and 0 < progress["elapsed_s"] < 60, "the time stands still at its end"
    said = [progress[name] for name in ("running_s", "left_s", "finishing", "finalists", "examined")]
    assert said == [0.0, None, False, 2, 0]
    measured, other = progress["devices"]
    assert (measured["device"], measured["provenance"]) == (records.DEVICE, "predicted")
    assert (measured["elites"], measured["cells"], measured["best"], measured["qd_score"]) == (2, 6, 1.5, 2.5)
    assert measured["coverage"] == pytest.approx(1 / 3)
    assert measured["outcomes"] == {"correct": 2, "compile_error": 1}
    assert (other["elites"], other["best"]) == (0, None)


async def test_elites_and_progress_say_what_is_unexamined_while_a_done_search_finishes(
    client: httpx.AsyncClient, service: Service
) -> None:
    store = service.coordinator.store
    filled = await fill(store)
    await store.searches.change(filled.search.id, stop={"seconds": 60})
    await store.searches.set_state(filled.search.id, SearchState.DONE, finishing=True)
    await store.searches.count_time([filled.search.id], 45_500)
    address = f"/searches/{filled.search.id}"
    elites = (await client.get(f"{address}/elites")).json()["items"]
    assert [elite["finalist"] for elite in elites] == [{"standing": "unexamined", "reason": ""}] * 2
    search, progress = (await client.get(address)).json(), (await client.get(f"{address}/progress")).json()
    assert search["finishing"] is progress["finishing"] is True and search["ended_at"] is not None
    assert progress["state"] == "done" and progress["activity"].endswith("examining finalists 1 of 2")
    assert (progress["finalists"], progress["examined"]) == (2, 0)
    assert (progress["running_s"], progress["left_s"]) == (45.5, 14.5)
    report = records.report(
        {},
        kind="final",
        job=f"{filled.best}:0:{records.DEVICE}:final",
        search=filled.search.id,
        candidate=filled.best,
        bundle=elites[0]["bundle"],
        checks=(CheckResult(name="random_shapes", verdict="passed"),),
    )
    candidate = await store.candidates.get(filled.best)
    case = EvaluationCase(filled.search, records.OPERATOR, candidate, 0, elites[0]["bundle"], report.device)
    assert await store.reports.save(record(case, report))
    elites = (await client.get(f"{address}/elites")).json()["items"]
    assert [elite["finalist"]["standing"] for elite in elites] == ["passed", "unexamined"]
    await asyncio.sleep(PROGRESS_S)
    progress = (await client.get(f"{address}/progress")).json()
    assert progress["examined"] == 1 and progress["activity"].endswith("examining finalists 2 of 2")


async def test_progress_says_who_gets_the_turns_to_come(client: httpx.AsyncClient, filled) -> None:
    turns = (await client.get(f"/searches/{filled.search.id}/progress")).json()["emitters"]
    assert [item["emitter"] for item in turns] == list(filled.search.emitters)
    assert sum(item["share"] for item in turns) == pytest.approx(1.0)
    assert all(item["suspended"] == {} for item in turns)


async def test_an_archive_that_is_as_it_was_is_not_sent_again(client: httpx.AsyncClient, service, filled) -> None:
    address = f"/searches/{filled.search.id}/archive"
    first = await client.get(address)
    tag = first.headers["etag"]
    again = await client.get(address, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    head = await client.head(address)
    assert (head.status_code, head.content, head.headers["etag"]) == (200, b"", tag)
    other = await client.get(address, params={"device": "model:sm_80"}, headers={"If-None-Match": tag})
    assert other.status_code == 200


async def test_elites_are_sorted_and_paged(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/elites"
    for sort, cells in (
        ("-objective", [1, 0]),
        ("objective", [0, 1]),
        ("cell", [0, 1]),
        ("-cell", [1, 0]),
        ("placed", [0, 1]),
    ):
        first = (await client.get(address, params={"sort": sort, "limit": 1})).json()
        rest = (await client.get(address, params={"sort": sort, "cursor": first["next"]})).json()
        assert [elite["cell"] for elite in first["items"] + rest["items"]] == cells, sort
        assert rest["next"] is None


async def test_every_order_of_elites_can_be_asked_for() -> None:
    assert set(get_args(EliteSort)) == {sign + name for name in ELITE_SORTS for sign in ("", "-")}
