"""What some other site makes a browser send is stopped; what programs and our own pages send passes."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from service.security.authentication import issue
from service.security.scopes import Scope
from tests.service.api.guarding import bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

TOKENS = "/api/v1/tokens"
NEW = {"name": "another", "scopes": ["read"]}
ELSEWHERE = [
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": ""},
    {"Origin": "https://attacker.example"},
    {"Origin": "null"},
    {"Origin": "http://reef.example.attacker.example"},
    {"Sec-Fetch-Site": "cross-site", "Origin": "http://reef.example"},
]
"""What browsers say of requests that other sites make them send."""


@pytest_asyncio.fixture(loop_scope="module")
async def text(service) -> str:
    return (await issue(service.coordinator.store, "person", set(Scope)))[1]


@pytest_asyncio.fixture(loop_scope="module")
async def browser(service, text: str) -> AsyncIterator[tuple[httpx.AsyncClient, str]]:
    """A client with a session's cookie, and the session's second secret."""
    async with guarded(service.coordinator) as client:
        answer = await client.post("/login", json={"token": text})
        assert answer.status_code == 200
        yield client, answer.json()["csrf"]


async def test_our_own_pages_pass(browser) -> None:
    client, csrf = browser
    for headers in ({}, {"Sec-Fetch-Site": "same-origin"}, {"Origin": "http://reef.example"}):
        assert (await client.post(TOKENS, json=NEW, headers={"X-CSRF-Token": csrf, **headers})).status_code == 201


async def test_a_cookie_alone_changes_nothing(service, browser) -> None:
    client, csrf = browser
    before = await service.coordinator.store.tokens.list()
    for headers in ({}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": csrf[:-1]}, {"X-CSRF-Token": "\u00ff"}):
        raw = {name: value.encode("latin-1") for name, value in headers.items()}
        answer = await client.post(TOKENS, json=NEW, headers=raw)
        assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")
    assert (await client.delete(f"{TOKENS}/{before[0].id}")).status_code == 403
    assert await service.coordinator.store.tokens.list() == before
    assert (await client.get(TOKENS)).status_code == 200, "reading needs no second secret"


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_a_browser_that_comes_from_elsewhere_is_refused(browser, headers: dict[str, str]) -> None:
    client, csrf = browser
    answer = await client.post(TOKENS, json=NEW, headers={"X-CSRF-Token": csrf, **headers})
    assert (answer.status_code, answer.json()["detail"]) == (403, "this request came from another site")


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_so_it_is_where_nobody_logs_in(service, headers: dict[str, str]) -> None:
    answer = await service.client.post("/searches", json={"operator": "rmsnorm"}, headers=headers)
    assert (answer.status_code, answer.json()["detail"]) == (403, "this request came from another site")


@pytest.mark.parametrize("headers", ELSEWHERE)
async def test_nobody_is_logged_in_by_another_site(service, text: str, headers: dict[str, str]) -> None:
    async with guarded(service.coordinator) as client:
        answer = await client.post("/login", json={"token": text}, headers=headers)
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_another_sessions_second_secret_is_not_taken(service, browser, text: str) -> None:
    client, _ = browser
    async with guarded(service.coordinator) as other:
        theirs = (await other.post("/login", json={"token": text})).json()["csrf"]
    assert (await client.post(TOKENS, json=NEW, headers={"X-CSRF-Token": theirs})).status_code == 403


async def test_a_form_carries_it_in_a_field(browser) -> None:
    client, csrf = browser
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    for field, passed in ((csrf.encode(), True), (b"x", False), (b"\xff", False), (b"&" * 2000, False)):
        answer = await client.post(TOKENS, content=b"a=b&csrf=" + field, headers=form)
        assert (answer.status_code == 403) != passed
    json = await client.post(TOKENS, content=f"csrf={csrf}", headers={"Content-Type": "text/plain"})
    assert json.status_code == 403


async def test_a_program_with_a_token_is_not_asked(service) -> None:
    headers = await bearer(service.coordinator.store)
    async with guarded(service.coordinator) as client:
        answer = await client.post(TOKENS, json=NEW, headers={**headers, "Origin": "https://ci.example"})
    assert answer.status_code == 201
