"""Candidates over HTTP: a list by pages and by outcome, and one with everything that is known of it."""

from typing import get_args

import httpx
import pytest

from archive.records import CANDIDATE_SORTS
from service.api.candidates import CandidateSort
from service.certificates.document import read
from tests.service import records
from workers.protocol import Bundle

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_candidates_come_newest_first_and_by_pages(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/candidates"
    first = (await client.get(address, params={"limit": 3})).json()
    rest = (await client.get(address, params={"limit": 3, "cursor": first["next"]})).json()
    ids = [candidate["id"] for candidate in first["items"] + rest["items"]]
    assert ids == [filled.queued, filled.failed, filled.best, filled.first]
    assert rest["next"] is None
    assert "source" not in first["items"][0]


async def test_candidates_can_be_asked_for_by_outcome(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/candidates"
    (failed,) = (await client.get(address, params={"outcome": "compile_error"})).json()["items"]
    assert (failed["id"], failed["reason"], failed["line"]) == (filled.failed, "no such name", 3)
    unknown = await client.get(address, params={"outcome": "sad"})
    assert unknown.status_code == 422
    assert unknown.json()["errors"][0]["field"] == "query.outcome"


async def test_a_candidate_is_shown_whole(client: httpx.AsyncClient, filled) -> None:
    shown = (await client.get(f"/candidates/{filled.best}")).json()
    assert shown["source"] == f"{records.SEED}# 1\n"
    assert (shown["outcome"], shown["objective"], shown["parents"]) == ("correct", 1.5, [filled.first])
    assert shown["stages_s"] == {"compile": 0.25}
    (variant,) = shown["variants"]
    assert variant["configuration"] == {"BLOCK": 128}
    assert [plan["shape"] for plan in variant["plans"]] == ["N=4", "N=1024", "N=4096"]
    assert {plan["readings"]["num_warps"] for plan in variant["plans"]} == {2}
    assert any("double_kernel" in line for line in variant["plans"][0]["words"])
    (report,) = shown["reports"]
    assert (report["provenance"], report["device"], report["bundle"]) == (
        "predicted",
        records.DEVICE,
        variant["bundle"],
    )


async def test_a_candidate_that_waits_has_no_variants_yet(client: httpx.AsyncClient, filled) -> None:
    shown = (await client.get(f"/candidates/{filled.queued}")).json()
    assert (shown["state"], shown["outcome"], shown["variants"], shown["reports"]) == ("queued", None, [], [])


@pytest.mark.parametrize("id", ["0190a000-0000-7000-8000-000000000000", "x"])
async def test_an_unknown_candidate_is_not_found(client: httpx.AsyncClient, id: str) -> None:
    assert (await client.get(f"/candidates/{id}")).status_code == 404


async def test_candidates_can_be_asked_for_by_emitter(client: httpx.AsyncClient, filled) -> None:
    seeds = (await client.get(f"/searches/{filled.search.id}/candidates", params={"emitter": "seed"})).json()
    assert [candidate["id"] for candidate in seeds["items"]] == [filled.first]


async def test_a_variant_s_bundle_is_to_be_had_as_it_is(client: httpx.AsyncClient, filled) -> None:
    shown = (await client.get(f"/candidates/{filled.best}/bundle")).json()
    assert Bundle.model_validate(shown) == records.bundle(2)
    for address in (f"/candidates/{filled.best}/bundle?variant=7", f"/candidates/{filled.failed}/bundle"):
        answer = await client.get(address)
        assert (answer.status_code, "no plan" in answer.json()["detail"]) == (404, True)


async def test_a_certificate_is_to_be_had_of_what_is_correct(client: httpx.AsyncClient, filled) -> None:
    answer = await client.get(f"/candidates/{filled.best}/certificate")
    found = read(answer.content)
    assert found.digest == found.certificate.id, "what is sent is what was sealed"
    assert found.certificate.bundle == records.bundle(2) and found.certificate.place.cell == 1
    bare = (await client.get(f"/candidates/{filled.best}/certificate?source=false&device=model:sm_90&variant=0")).json()
    assert bare["source"] is None and found.certificate.source == f"{records.SEED}# 1\n"
    for address in (f"{filled.failed}/certificate", f"{filled.best}/certificate?device=h200"):
        assert (await client.get(f"/candidates/{address}")).status_code == 404


async def test_candidates_are_filtered_and_sorted(client: httpx.AsyncClient, filled) -> None:
    address = f"/searches/{filled.search.id}/candidates"
    for query, found in (
        ({"sort": "created"}, [filled.first, filled.best, filled.failed, filled.queued]),
        ({"sort": "-objective"}, [filled.best, filled.first]),
        ({"state": "queued"}, [filled.queued]),
        ({"cell": 1}, [filled.best]),
        ({"cell": 1, "device": "model:sm_80"}, []),
        ({"device": records.DEVICE, "emitter": "tune"}, [filled.best]),
        ({"text": "NO SUCH"}, [filled.failed]),
        ({"text": "# 3", "state": "queued"}, [filled.queued]),
        ({"text": "num_warps", "outcome": "correct"}, [filled.best]),
    ):
        listed = (await client.get(address, params=query)).json()
        assert [each["id"] for each in listed["items"]] == found, query
        assert listed["next"] is None
    unknown = await client.get(address, params={"device": "h200"})
    assert (unknown.status_code, unknown.json()["errors"][0]["field"]) == (422, "query.device")


async def test_every_order_can_be_asked_for() -> None:
    assert set(get_args(CandidateSort)) == {sign + name for name in CANDIDATE_SORTS for sign in ("", "-")}
