"""Login and logout: the cookie browsers get, what they may do with it, and how it ends."""

from collections.abc import AsyncIterator

import httpx
import pytest
import pytest_asyncio

from service.api.access_schemas import OpenSession
from service.api.sessions import page_after
from service.security.authentication import issue
from service.security.cookies import PLAIN_NAME, SECURE_NAME
from service.security.scopes import Scope
from tests.service.api.guarding import guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEARCHES = "/api/v1/searches"


@pytest_asyncio.fixture(loop_scope="module")
async def text(service) -> str:
    return (await issue(service.coordinator.store, "person", {Scope.READ}))[1]


@pytest_asyncio.fixture(loop_scope="module")
async def browser(service) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(service.coordinator) as client:
        yield client


async def test_a_login_gives_a_cookie_that_opens_the_gate(browser, text: str) -> None:
    answer = await browser.post("/login", json={"token": text})
    session = OpenSession.model_validate(answer.json())
    assert (answer.status_code, session.name, session.scopes) == (200, "person", (Scope.READ,))
    assert answer.headers["cache-control"] == "no-store"
    cookie = answer.headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    assert text not in cookie and session.csrf not in cookie
    assert (await browser.get(SEARCHES)).status_code == 200


async def test_a_session_may_do_what_its_token_may(browser, text: str) -> None:
    csrf = (await browser.post("/login", json={"token": text})).json()["csrf"]
    headers = {"X-CSRF-Token": csrf}
    answer = await browser.post(SEARCHES, json={"operator": "rmsnorm"}, headers=headers)
    assert (answer.status_code, answer.json()["title"]) == (403, "Forbidden")


async def test_over_tls_the_cookie_is_bound_to_this_very_host(service, text: str) -> None:
    async with guarded(service.coordinator, scheme="https") as client:
        cookie = (await client.post("/login", json={"token": text})).headers["set-cookie"]
        assert cookie.startswith(f"{SECURE_NAME}=") and cookie.endswith("; Secure")
        assert (await client.get(SEARCHES)).status_code == 200
    async with guarded(service.coordinator, scheme="https") as client:
        weaker = cookie.partition(";")[0].replace(SECURE_NAME, PLAIN_NAME)
        assert (await client.get(SEARCHES, headers={"Cookie": weaker})).status_code == 401


async def test_a_form_is_sent_on_to_the_page_that_was_asked_for(browser, text: str) -> None:
    answer = await browser.post("/login", data={"token": f" {text}\r\n", "next": "/searches/7?device=h200"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/searches/7?device=h200")
    assert (await browser.get(SEARCHES)).status_code == 200


async def test_a_form_with_a_wrong_token_comes_back(browser) -> None:
    answer = await browser.post("/login", data={"token": "reef_wrong", "next": "/searches/7"})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login?refused=1&next=%2Fsearches%2F7")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize(
    ("asked", "page"),
    [
        ("/searches/7?a=b", "/searches/7?a=b"),
        ("", "/"),
        ("searches", "/"),
        ("https://attacker.example/", "/"),
        ("//attacker.example/", "/"),
        ("/\\attacker.example/", "/"),
        ("/\t/attacker.example/", "/"),
        ("/a\r\nSet-Cookie: x=y", "/"),
        ("javascript:alert(1)", "/"),
    ],
)
async def test_nobody_is_sent_to_another_site(asked: str, page: str) -> None:
    assert page_after(asked) == page


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'{"token": 1}', b'{"token": "reef_x", "more": 1}', b'{"token": "' + b"x" * 300 + b'"}']
)
async def test_a_login_that_cannot_be_read_names_what_would_be_right(browser, body: bytes) -> None:
    answer = await browser.post("/login", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 422)
    assert "x" * 300 not in answer.text


async def test_a_cookie_that_was_planted_becomes_no_session(browser, text: str) -> None:
    planted = {"Cookie": f"{PLAIN_NAME}=planted"}
    answer = await browser.post("/login", json={"token": text}, headers=planted)
    assert "planted" not in answer.headers["set-cookie"]
    browser.cookies.clear()
    assert (await browser.get(SEARCHES, headers=planted)).status_code == 401


async def test_a_second_login_ends_the_session_before(service, browser, text: str) -> None:
    first = (await browser.post("/login", json={"token": text})).headers["set-cookie"].partition(";")[0]
    await browser.post("/login", json={"token": text})
    async with guarded(service.coordinator) as other:
        assert (await other.get(SEARCHES, headers={"Cookie": first})).status_code == 401


async def test_logging_out_ends_the_session_for_everybody_who_has_the_cookie(service, browser, text: str) -> None:
    answer = await browser.post("/login", json={"token": text})
    cookie = {"Cookie": answer.headers["set-cookie"].partition(";")[0]}
    assert (await browser.post("/logout")).status_code == 403, "without the second secret"
    out = await browser.post("/logout", headers={"X-CSRF-Token": answer.json()["csrf"]})
    assert (out.status_code, out.headers["set-cookie"].startswith(f"{PLAIN_NAME}=;")) == (204, True)
    async with guarded(service.coordinator) as other:
        assert (await other.get(SEARCHES, headers=cookie)).status_code == 401


async def test_a_form_logs_out_too(browser, text: str) -> None:
    csrf = (await browser.post("/login", json={"token": text})).json()["csrf"]
    answer = await browser.post("/logout", data={"csrf": csrf})
    assert (answer.status_code, answer.headers["location"]) == (303, "/login")
    assert (await browser.get(SEARCHES)).status_code == 401


async def test_a_session_ends_when_its_token_is_revoked(service, browser) -> None:
    token, text = await issue(service.coordinator.store, "lost", {Scope.READ})
    await browser.post("/login", json={"token": text})
    assert (await browser.get(SEARCHES)).status_code == 200
    await service.coordinator.store.tokens.revoke(token.id)
    assert (await browser.get(SEARCHES)).status_code == 401


async def test_whoever_needs_no_login_may_log_out(service) -> None:
    async with httpx.AsyncClient(transport=httpx.ASGITransport(service.app), base_url="http://127.0.0.1") as client:
        assert (await client.post("/logout")).status_code == 204
