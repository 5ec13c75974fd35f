import httpx
import pytest

from archive.records import ExchangeState
from tests.archive.samples import new_exchange
from tests.service.dashboard.conftest import Hostile, Service
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def waiting(service: Service, search: str, ordinal: int = 1) -> str:
    new = new_exchange(search, ordinal, system="be brief", user="write a kernel", state=ExchangeState.WAITING)
    return (await service.coordinator.store.exchanges.open(new)).id


async def test_prompts_are_listed_and_shown_as_text(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    assert f"/prompts/{hostile.prompt}" in [link["href"] for link in read(await pages.get("/prompts")).all("a")]
    page = read(await pages.get(f"/prompts/{hostile.prompt}"))
    assert page.text.count(CORPUS[0]) >= 4 and page.all("textarea") == []
    assert "is not one of" in read(await pages.get("/prompts?state=lost"), 422).text
    assert "No prompt in this state" in read(await pages.get("/prompts?state=claimed")).text


async def test_a_person_answers_what_waits(pages: httpx.AsyncClient, service: Service, hostile: Hostile) -> None:
    id = await waiting(service, hostile.search.id)
    assert len(read(await pages.get(f"/prompts/{id}")).all("textarea")) == 1
    assert "write an answer" in read(await pages.post(f"/prompts/{id}/answer", data={"text": " "}), 422).text
    assert (await pages.post(f"/prompts/{id}/answer", data={"text": "```python\nx = 1\n```"})).status_code == 303
    kept = await service.coordinator.store.exchanges.get(id)
    assert (kept.text, kept.model, kept.claimed_by) == ("```python\nx = 1\n```", "by hand", "local")
    assert read(await pages.post(f"/prompts/{id}/answer", data={"text": "again"}), 409).text


async def test_a_prompt_is_claimed_and_left_to_others(
    pages: httpx.AsyncClient, service: Service, hostile: Hostile
) -> None:
    id = await waiting(service, hostile.search.id, ordinal=2)
    claim = f"/prompts/{id}/claim"
    assert claim in [form.get("action") for form in read(await pages.get("/prompts?state=waiting")).all("form")]
    assert (await pages.post(claim)).status_code == 303
    mine = read(await pages.get(f"/prompts/{id}"))
    assert "You have claimed it until" in mine.text and len(mine.all("textarea")) == 1
    assert (await pages.post(f"/prompts/{id}/release")).status_code == 303
    assert claim in [form.get("action") for form in read(await pages.get(f"/prompts/{id}")).all("form")]
    await service.coordinator.llm_gateway.manual.claim(id, "<b>ada", 60)
    others = read(await pages.get(f"/prompts/{id}"))
    assert "Claimed by <b>ada" in others.text and others.all("textarea") == []
    assert read(await pages.post(claim), 409).text
