import httpx
import pytest

from service.security.authentication import Authentication
from service.security.scopes import Scope
from tests.service.dashboard.conftest import Hostile, Service
from tests.service.dashboard.hostile import CORPUS
from tests.service.dashboard.reading import read

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def test_tokens_and_what_was_done_are_listed(pages: httpx.AsyncClient, hostile: Hostile) -> None:
    await pages.post(f"/searches/{hostile.search.id}/evaluations", data={"evaluations": "0"})
    page = read(await pages.get("/tokens"))
    assert CORPUS[0] in page.text
    assert f"/searches/{hostile.search.id}/evaluations" in page.text
    assert f"/searches/{hostile.search.id}/evaluations" in read(await pages.get("/audit")).text


async def test_a_token_is_shown_once_and_works(pages: httpx.AsyncClient, service: Service) -> None:
    answer = await pages.post("/tokens", data={"name": "ci", "scopes": ["read", "submit"], "days": "30"})
    page = read(answer, 201)
    assert answer.headers["cache-control"] == "no-store"
    text = next(word for word in page.text.split() if word.startswith("reef_"))
    identity = await Authentication(service.coordinator.store).by_token(text)
    assert (identity.name, identity.scopes) == ("ci", frozenset({Scope.READ, Scope.SUBMIT}))
    assert text not in read(await pages.get("/tokens")).text
    assert (await pages.post(f"/tokens/{identity.token}/revoke")).status_code == 303
    assert "revoked" in read(await pages.get("/tokens")).text


@pytest.mark.parametrize(
    "form, said",
    [
        ({"name": "", "scopes": "read", "days": "1"}, "must not be empty"),
        ({"name": "x", "days": "1"}, "at least 1 item"),
        ({"name": "x", "scopes": "read", "days": "7000"}, "choose one of"),
    ],
)
async def test_what_cannot_be_says_why(pages: httpx.AsyncClient, form: dict[str, str], said: str) -> None:
    assert said in read(await pages.post("/tokens", data=form), 422).text


async def test_the_login_leads_on_within_this_service_only(pages: httpx.AsyncClient) -> None:
    inside = read(await pages.get("/login?next=/workers"))
    outside = read(await pages.get("/login?next=//elsewhere.example/&refused=1"))
    assert {"type": "hidden", "name": "next", "value": "/workers"} in inside.all("input")
    assert {"type": "hidden", "name": "next", "value": "/"} in outside.all("input")
    assert "unknown, revoked or expired" in outside.text
