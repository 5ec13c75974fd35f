"""The client against the real app, inside this process and over HTTP."""

import asyncio
import io
import json
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import httpx
import pytest
from starlette.types import ASGIApp

from archive.records import SearchState
from kernelreef import AsyncReef, models
from kernelreef.in_process import InProcessTransport
from service.certificates.document import Certificate, sealed
from service.errors import Conflict, InvalidInput, NotFound
from service.operators.catalogue import load_catalogue
from tests.service import records
from workers.protocol import Bundle, MutationReport, Operator

pytestmark = pytest.mark.asyncio(loop_scope="module")

NOBODY = "0190a000-0000-7000-8000-000000000000"


async def test_a_search_is_submitted_and_steered(reef: AsyncReef) -> None:
    search = await reef.submit("rmsnorm", evaluations=20, seed=5, axes=["num_warps"], emitters=["tune"])
    assert isinstance(search, models.Search)
    assert (search.operator, search.evaluations, search.seed, search.axes) == ("rmsnorm", 20, 5, ("num_warps",))
    assert (await reef.pause(search.id)).state is SearchState.PAUSED
    assert (await reef.resume(search.id)).state is SearchState.PREPARING
    assert (await reef.update(search.id, evaluations=30)).evaluations == 30
    changed = await reef.update(search.id, priority=2, stop={"plateau": 5})
    assert (changed.evaluations, changed.priority, changed.stop) == (30, 2, {"plateau": 5})
    assert (await reef.update(search.id, stop={})).stop is None
    pin = await reef.pin(search.id, cell=2)
    hint = await reef.hint(search.id, "try wider loads")
    assert [one.id async for one in reef.pins(search.id)] == [pin.id]
    assert [one.text async for one in reef.hints(search.id)] == ["try wider loads"]
    await reef.unpin(search.id, pin.id)
    await reef.forget(search.id, hint.id)
    assert [one async for one in reef.pins(search.id)] == []
    assert (await reef.stop(search.id)).state is SearchState.STOPPED
    assert (await reef.wait(search.id)).state is SearchState.STOPPED


async def test_lists_are_read_to_their_end(reef: AsyncReef) -> None:
    ids = [(await reef.submit(records.OPERATOR)).id for _ in range(3)]
    found = [search.id async for search in reef.searches(operator="double")]
    assert found[:3] == ids[::-1]
    paged = [search.id async for search in reef.wire.list(models.Search, "/searches", operator="double", limit=2)]
    assert paged == found
    for id in ids:
        await reef.stop(id)
    assert ids[0] in [search.id async for search in reef.searches(state=[SearchState.STOPPED, "failed"])]


async def test_searches_are_labelled_found_again_and_deleted(reef: AsyncReef) -> None:
    first = await reef.submit("rmsnorm", name="b", tags=["labels", "x"], notes="the first")
    second = await reef.submit("rmsnorm", name="a", tags=["labels"])
    assert (first.name, first.tags, first.notes) == ("b", ("labels", "x"), "the first")
    for filters, ids in (
        ({"tag": "labels"}, [second.id, first.id]),
        ({"tag": ["labels", "x"]}, [first.id]),
        ({"tag": "labels", "sort": "name"}, [second.id, first.id]),
        ({"tag": "labels", "text": "FIRST", "owner": "", "device": "model:sm_90"}, [first.id]),
        ({"tag": "labels", "state": []}, [second.id, first.id]),
    ):
        assert [search.id async for search in reef.searches(**filters)] == ids, filters
    with pytest.raises(Conflict, match="stop it"):
        await reef.delete(first.id)
    await reef.stop(first.id)
    assert (await reef.update(first.id, name="c", tags=[])).tags == ()
    await reef.delete(first.id)
    with pytest.raises(NotFound):
        await reef.search(first.id)
    await reef.stop(second.id)
    await reef.delete(second.id)


async def test_what_was_found_comes_as_it_is(reef: AsyncReef, filled) -> None:
    search = filled.search.id
    archive = await reef.archive(search)
    elites = [elite async for elite in reef.elites(search)]
    listed = [elite.model_copy(update={"finalist": None}) for elite in sorted(elites, key=lambda elite: elite.cell)]
    assert listed == list(archive.elites), "the map says nothing of examinations"
    assert await reef.best(search) == elites[0]
    assert await reef.best(search, "model:sm_80") is None
    assert (await reef.progress(search)).devices[0].elites == 2
    summaries = [summary async for summary in reef.candidates(search, emitter="tune", outcome="correct")]
    assert [summary.id for summary in summaries] == [filled.best]
    ranked = [summary.id async for summary in reef.candidates(search, sort="-objective", device="model:sm_90")]
    assert ranked == [filled.best, filled.first]
    candidate = await reef.candidate(filled.best)
    assert candidate.reports[0]["candidate"] == filled.best
    assert Bundle.model_validate(await reef.bundle(filled.best)).plans
    certificate = Certificate.model_validate(await reef.certificate(filled.best))
    assert sealed(certificate) == certificate and certificate.origin.candidate == filled.best
    assert (await reef.certificate(filled.best, device="model:sm_90", variant=0, source=False))["source"] is None
    name, text = await reef.kernel(search, elites[0].cell)
    assert name == f"double_{filled.best}.py" and filled.best in text


async def test_an_export_is_written_when_it_is_complete(reef: AsyncReef, filled, tmp_path: Path) -> None:
    path = await reef.export(filled.search.id, tmp_path / "found.zip")
    assert json.loads(zipfile.ZipFile(io.BytesIO(path.read_bytes())).read("manifest.json"))["format"] == 1
    with pytest.raises(NotFound):
        await reef.export(NOBODY, tmp_path / "nothing.zip")
    assert [each.name for each in tmp_path.iterdir()] == ["found.zip"]


async def test_a_package_of_what_cannot_be_lifted_is_not_written(reef: AsyncReef, filled, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"no elite can be exported: candidate .*: its plan cannot be written"):
        await reef.package(filled.search.id, tmp_path / "package")
    with pytest.raises(NotFound, match="no elite on model:sm_80"):
        await reef.package(filled.search.id, tmp_path / "package", device="model:sm_80")
    assert list(tmp_path.iterdir()) == []


async def test_operators_are_handed_in_and_shown(reef: AsyncReef, service) -> None:
    names = [summary.name async for summary in reef.operators(catalogue=True)]
    assert names == sorted(load_catalogue())
    assert Operator.model_validate(await reef.operator("rmsnorm")) == load_catalogue()["rmsnorm"]
    added = await reef.add_operator(records.OPERATOR)
    assert (added.digest, added.catalogue) == (records.OPERATOR.digest, False)
    gate = MutationReport(verdict="passed")
    await service.coordinator.store.operators.keep_mutation_report(added.digest, gate.verdict, gate.model_dump_json())
    assert MutationReport.model_validate((await reef.gate(added.digest))["gate"]) == gate
    assert [worker async for worker in reef.workers()] == []


async def test_problems_are_exceptions(reef: AsyncReef, filled) -> None:
    with pytest.raises(NotFound, match="no search"):
        await reef.search(NOBODY)
    with pytest.raises(Conflict, match="done"):
        await reef.pause(filled.search.id)
    with pytest.raises(InvalidInput, match="tune") as caught:
        await reef.submit("rmsnorm", emitters=["luck"])
    assert caught.value.field == "emitters"


async def test_events_come_until_the_search_ends(reef: AsyncReef) -> None:
    search = await reef.submit("rmsnorm")
    seen = []
    async with asyncio.timeout(20):
        async for event in reef.events(search.id):
            seen.append((event.kind, event.search.state if event.search else event.data.get("state")))
            if event.kind == "stream.reset":
                await reef.pause(search.id)
                await reef.stop(search.id)
    assert seen[0] == ("stream.reset", "preparing")
    assert seen[-2:] == [("search.changed", "paused"), ("search.changed", "stopped")]
    after = [event.search.state async for event in reef.events(search.id) if event.search]
    assert after == ["stopped"]


async def test_the_address_and_the_token_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_URL", "https://reef.example.org/")
    monkeypatch.setenv("REEF_TOKEN", "reef_secret")
    async with AsyncReef() as named:
        http = named.wire._http
        assert str(http.base_url) == "https://reef.example.org/api/v1/"
        assert http.headers["authorization"] == "Bearer reef_secret"


class Losing(httpx.AsyncBaseTransport):
    """A network that loses the first answer to every kind of change, after it was carried out."""

    def __init__(self, app: ASGIApp) -> None:
        self._inside = InProcessTransport(app)
        self._lost: set[str] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        answer = await self._inside.handle_async_request(request)
        if request.method != "GET" and request.url.path not in self._lost:
            self._lost.add(request.url.path)
            await answer.aread()
            raise httpx.ReadError("the connection broke", request=request)
        return answer


async def test_what_was_carried_out_is_not_done_again_when_its_answer_got_lost(service) -> None:
    async with AsyncReef("http://127.0.0.1", transport=Losing(service.app)) as reef:
        search = await reef.submit("gelu", evaluations=20)
        assert [found.id async for found in reef.searches(operator="gelu")] == [search.id]
        hint = await reef.hint(search.id, "try wider loads")
        assert [found.id async for found in reef.hints(search.id)] == [hint.id]
        assert (await reef.update(search.id, evaluations=30)).evaluations == 30
        assert (await reef.stop(search.id)).state is SearchState.STOPPED
        await reef.forget(search.id, hint.id)
        assert [found async for found in reef.hints(search.id)] == []


async def test_tokens_are_made_and_revoked_and_it_is_written_down(reef: AsyncReef) -> None:
    expires_at = datetime(2099, 1, 1, tzinfo=UTC)
    made = await reef.create_token("ci", ["read", "submit"], expires_at)
    assert (made.name, made.scopes, made.expires_at) == ("ci", ("read", "submit"), expires_at)
    assert made.id in [token.id async for token in reef.tokens()]
    assert (await reef.revoke_token(made.id)).revoked_at is not None
    newest = await anext(reef.audit())
    assert (newest.action, newest.caller) == ("DELETE /api/v1/tokens/{id}", "local")
    assert [entry async for entry in reef.audit(made.id)] == [], "nothing was done with the token itself"
