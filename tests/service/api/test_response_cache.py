"""Pages are made once for as long as nothing changes that they tell, and never sent when something has."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
import pytest_asyncio
from sqlalchemy import Engine, event
from uuid6 import uuid7

from archive.records import NewCandidate, NewSearch
from service.api.response_cache import ResponseCache
from service.app import create_app
from service.security.scopes import Scope
from service.settings import Settings
from tests.service import records
from tests.service.api.guarding import bearer, guarded
from workers.queue import LeaseClient

pytestmark = pytest.mark.asyncio(loop_scope="module")

PAGES = ("", "/archive", "/progress", "/candidates")


@dataclass(frozen=True)
class Pages:
    """The pages of one search."""

    client: httpx.AsyncClient
    address: str

    async def get(self, page: str, **options: Any) -> httpx.Response:
        return await self.client.get(f"{self.address}{page}", **options)


def reading() -> str | None:
    """The name of the task that is reading."""
    task = asyncio.current_task()
    return task and task.get_name()


@pytest.fixture
def made() -> Iterator[list[str]]:
    """A statement for each page that was made: every one begins with reading its search whole."""
    sent: list[str] = []

    def note(connection: object, cursor: object, statement: str, *rest: object) -> None:
        # The coordinator reads searches that run for itself, whenever it looks.
        if "searches.graphs" in statement and reading() != "evolution":
            sent.append(statement)

    event.listen(Engine, "before_cursor_execute", note)
    yield sent
    event.remove(Engine, "before_cursor_execute", note)


@pytest_asyncio.fixture(loop_scope="module")
async def pages(service, filled) -> AsyncIterator[Pages]:
    """A client of an app of its own."""
    app = create_app(Settings())
    app.state.coordinator = service.coordinator
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        yield Pages(client, f"/api/v1/searches/{filled.search.id}")


@pytest.mark.parametrize("page", PAGES)
async def test_an_unchanged_page_is_made_once_however_many_ask(
    pages: Pages, made: list[str], page: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.response_cache.PROGRESS_S", 1e9)
    first, *others = await asyncio.gather(*(pages.get(page) for _ in range(20)))
    again = await pages.get(page)
    assert len(made) == 1
    for answer in (*others, again):
        assert (answer.status_code, answer.content, answer.headers) == (200, first.content, first.headers)


async def test_progress_is_made_anew_as_time_passes(
    pages: Pages, made: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.api.response_cache.PROGRESS_S", 0.05)
    for page, times in (("/progress", 2), ("/archive", 1)):
        made.clear()
        await pages.get(page)
        await asyncio.sleep(0.1)
        await pages.get(page)
        assert len(made) == times


async def test_other_questions_are_answered_by_other_pages(pages: Pages, filled) -> None:
    for _ in range(2):
        few, all = [(await pages.get(f"/candidates?limit={limit}")).json()["items"] for limit in (1, 50)]
        assert (len(few), len(all)) == (1, 4)
        failed = (await pages.get("/candidates?outcome=compile_error")).json()["items"]
        assert [item["id"] for item in failed] == [filled.failed]


async def test_whatever_changes_is_told_at_once(service, pages: Pages, filled) -> None:
    store, search = service.coordinator.store, filled.search

    async def figures() -> tuple[Any, ...]:
        shown, archive, progress, listed = [(await pages.get(page)).json() for page in PAGES]
        return (
            shown["evaluations"],
            len(archive["elites"]),
            progress["candidates"],
            [one["id"] for one in listed["items"]],
        )

    before = await figures()
    assert await figures() == before
    await store.searches.change(search.id, evaluations=9)
    assert (await figures())[0] == 9
    new = NewCandidate(str(uuid7()), search.id, 4, "tune", "# 4\n", f"{4:064}", f"{4:064}")
    await store.candidates.add(new)
    assert (await figures())[2:] == (before[2] + 1, [new.id, *before[3]])
    (elite,) = [each for each in await store.elites.list(search.id, records.DEVICE, 1) if each.cell == 1]
    await store.elites.withdraw(search.id, records.DEVICE, elite.bundle, "examined")
    assert (await figures())[1] == before[1] - 1


async def test_progress_is_told_anew_when_a_device_is_served(
    service, pages: Pages, filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("service.fleet.capabilities.LOOK_AGAIN_S", 0.0)
    service.coordinator.capabilities._until = 0.0
    assert (await pages.get("/progress")).json()["devices_without_worker"] == list(filled.search.devices)
    worker = LeaseClient(service.redis_url, "w", device=records.DEVICE)
    worker.announce()
    assert (await pages.get("/progress")).json()["devices_without_worker"] == ["model:sm_80"]
    worker.depart()
    assert (await pages.get("/progress")).json()["devices_without_worker"] == list(filled.search.devices)


async def test_a_search_that_asks_models_has_its_progress_told_anew(service, made: list[str], filled) -> None:
    fields = {name: getattr(filled.search, name) for name in NewSearch.__dataclass_fields__}
    asking = await service.coordinator.store.searches.create(
        NewSearch(**{**fields, "id": str(uuid7()), "llm": {"backend": "b", "strategies": []}})
    )
    for _ in range(2):
        made.clear()
        assert (await service.client.get(f"/searches/{asking.id}/progress")).status_code == 200
        assert len(made) == 1


async def test_a_page_is_kept_for_those_who_may_see_it(service, filled) -> None:
    address = f"/api/v1/searches/{filled.search.id}"
    readers, others = [await bearer(service.coordinator.store, {scope}) for scope in (Scope.READ, Scope.WORKER)]
    async with guarded(service.coordinator) as client:
        for _ in range(2):
            assert (await client.get(address)).status_code == 401
            assert (await client.get(address, headers=readers)).status_code == 200
            assert (await client.get(address, headers=others)).status_code == 403


async def test_what_is_not_there_stays_a_problem(service, pages: Pages) -> None:
    for _ in range(2):
        assert (await service.client.get(f"/searches/{uuid7()}")).status_code == 404
        assert (await pages.get("/archive?device=h200")).status_code == 422


async def test_a_condition_is_answered_by_who_knows_the_page(pages: Pages) -> None:
    tag = (await pages.get("/archive")).headers["etag"]
    assert (await pages.get("/archive", headers={"If-None-Match": tag})).status_code == 304


async def test_pages_asked_for_last_are_kept_and_no_more_than_fit(service, filled, made: list[str]) -> None:
    app = create_app(Settings())
    app.state.coordinator = service.coordinator
    (place,) = [place for place, each in enumerate(app.user_middleware) if each.cls is ResponseCache]
    base = f"/api/v1/searches/{filled.search.id}/candidates?limit="
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        size = len((await client.get(f"{base}6")).content)
    app = create_app(Settings())
    app.state.coordinator = service.coordinator
    app.user_middleware[place].kwargs["most_bytes"] = 2 * size + 10
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1") as client:
        for limit in (4, 5, 4, 6):
            await client.get(f"{base}{limit}")
        for limit, is_kept in ((4, True), (6, True), (5, False)):
            made.clear()
            await client.get(f"{base}{limit}")
            assert (not made) is is_kept, limit
