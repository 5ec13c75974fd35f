"""The gate: nobody passes who is not known, whatever the address; strangers cannot ask as often as they like."""

import time
from collections.abc import AsyncIterator, Mapping

import httpx
import pytest
import pytest_asyncio

from archive.records import TokenRecord
from service.api.auth import GUESSES
from service.api.problems import Problem
from service.app import create_app
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.allowed_hosts import AllowedHosts
from service.security.authentication import issue
from service.security.credentials import mint
from service.security.scopes import Scope
from service.settings import Settings
from tests.service.api.guarding import ALWAYS, bearer, guarded

pytestmark = pytest.mark.asyncio(loop_scope="module")

SEARCHES = "/api/v1/searches"


@pytest_asyncio.fixture(loop_scope="module")
async def strict(service) -> AsyncIterator[httpx.AsyncClient]:
    async with guarded(service.coordinator) as client:
        yield client


@pytest_asyncio.fixture(loop_scope="module")
async def made(service) -> tuple[TokenRecord, str]:
    return await issue(service.coordinator.store, "laptop", {Scope.READ})


def refused(answer: httpx.Response, status: int = 401) -> Problem:
    document = Problem.model_validate(answer.json())
    assert answer.status_code == document.status == status
    return document


async def test_a_token_opens_the_gate(strict, made) -> None:
    answer = await strict.get(SEARCHES, headers={"Authorization": f"Bearer {made[1]}"})
    assert answer.status_code == 200
    assert (await strict.get(SEARCHES, headers={"Authorization": f"bearer  {made[1]} "})).status_code == 200


@pytest.mark.parametrize("path", [SEARCHES, "/metrics", "/", "/nowhere", "/api/v1/nowhere", "/login/", "/static", "//"])
async def test_strangers_are_asked_who_they_are_wherever_they_go(strict, path: str) -> None:
    answer = await strict.get(path)
    assert refused(answer).title == "Unauthenticated"
    assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/openapi.json"])
async def test_a_few_addresses_are_open(strict, path: str) -> None:
    assert (await strict.get(path)).status_code == 200
    assert (await strict.get(path, headers={"Authorization": "Bearer nonsense"})).status_code == 200


async def test_what_is_no_token_opens_nothing(strict, made) -> None:
    token, text = made
    other_secret, _ = mint(token.id)
    for stated in ("", "Bearer", "Bearer ", f"Basic {text}", text, f"Bearer {other_secret}", f"Bearer {text}0"):
        document = refused(await strict.get(SEARCHES, headers={"Authorization": stated}))
        assert text not in document.detail


async def test_a_wrong_token_is_refused_even_where_none_is_needed(service, made) -> None:
    answer = await service.client.get("/searches", headers={"Authorization": f"Bearer {made[1]}0"})
    refused(answer)
    right = await service.client.get("/searches", headers={"Authorization": f"Bearer {made[1]}"})
    assert right.status_code == 200
    beyond = await service.client.get("/tokens", headers={"Authorization": f"Bearer {made[1]}"})
    refused(beyond, 403)


async def test_a_revoked_token_opens_nothing_from_then_on(service, strict) -> None:
    token, text = await issue(service.coordinator.store, "lost", {Scope.READ})
    headers = {"Authorization": f"Bearer {text}"}
    assert (await strict.get(SEARCHES, headers=headers)).status_code == 200
    await service.coordinator.store.tokens.revoke(token.id)
    refused(await strict.get(SEARCHES, headers=headers))


async def test_a_person_is_sent_to_the_login_and_back(strict) -> None:
    html = {"Accept": "text/html,*/*;q=0.8"}
    answer = await strict.get("/searches/7?device=h200&x=1", headers=html)
    assert (answer.status_code, answer.headers["location"]) == (
        303,
        "/login?next=%2Fsearches%2F7%3Fdevice%3Dh200%26x%3D1",
    )
    assert (await strict.post("/searches/7/stop", headers=html)).headers["location"] == "/login"
    refused(await strict.get(SEARCHES, headers=html))


@pytest.mark.parametrize("host", ["attacker.example", "reef.example.attacker.example", "", "192.0.2.7"])
async def test_other_names_are_not_answered(strict, host: str) -> None:
    for path in ("/healthz", SEARCHES, "/openapi.json"):
        assert refused(await strict.get(path, headers={"Host": host}), 421).title == "Wrong host"


async def test_loopback_needs_a_login_once_there_are_tokens(tmp_path) -> None:
    app = create_app(Settings(data_dir=tmp_path, local_workers=0), AccessPolicy(LoginPolicy.ONCE_THERE_ARE_TOKENS))
    transport = httpx.ASGITransport(app, raise_app_exceptions=False)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client,
    ):
        assert (await client.get(SEARCHES)).status_code == 200
        token, text = await issue(app.state.coordinator.store, "first", {Scope.READ})
        refused(await client.get(SEARCHES))
        assert (await client.get("/metrics")).status_code == 200, "scrapers of the machine itself have no tokens"
        assert (await client.get(SEARCHES, headers={"Authorization": f"Bearer {text}"})).status_code == 200
        await app.state.coordinator.store.tokens.revoke(token.id)
        refused(await client.get(SEARCHES))


async def test_metrics_need_a_token_where_others_can_ask(service, strict) -> None:
    refused(await strict.get("/metrics"))
    headers = await bearer(service.coordinator.store, {Scope.READ})
    assert (await strict.get("/metrics", headers=headers)).status_code == 200
    refused(await strict.get("/metrics", headers=await bearer(service.coordinator.store, {Scope.SUBMIT})), 403)


async def asked(
    client: httpx.AsyncClient, headers: Mapping[str, str], path: str = SEARCHES
) -> tuple[list[httpx.Response], int]:
    """Ask until that is too often; what was answered, and how many more than at once may have been let through."""
    answers: list[httpx.Response] = []
    began = time.monotonic()
    while not answers or answers[-1].status_code != 429:
        answers.append(await client.get(path, headers=headers))
    return answers, int(time.monotonic() - began) + 1


async def test_a_caller_may_not_ask_as_often_as_he_likes(service) -> None:
    one, other = [await bearer(service.coordinator.store) for _ in range(2)]
    async with guarded(service.coordinator, AccessPolicy(LoginPolicy.ALWAYS, ALWAYS.hosts, requests_per_s=1)) as client:
        answers, more = await asked(client, one)
        assert {answer.status_code for answer in answers[:-1]} == {200}
        assert 10 <= len(answers) - 1 <= 10 + more
        assert refused(answers[-1], 429).title == "Too many requests"
        assert int(answers[-1].headers["retry-after"]) == 1
        assert (await client.get(SEARCHES, headers=other)).status_code == 200


async def test_neither_do_strangers(service) -> None:
    for headers in ({}, {"Authorization": "Bearer nonsense"}):
        async with guarded(
            service.coordinator, AccessPolicy(LoginPolicy.ALWAYS, ALWAYS.hosts, requests_per_s=1)
        ) as client:
            answers, more = await asked(client, headers)
            assert {answer.status_code for answer in answers[:-1]} == {401}
            assert 10 <= len(answers) - 1 <= 10 + more
            healthy, more = await asked(client, {}, "/healthz")
            assert len(healthy) - 1 <= more


async def test_nobody_may_try_tokens_at_the_login_all_day(strict) -> None:
    answers = [await strict.post("/login", json={"token": mint(7 * "0" + "1-0000-7000-8000-000000000000")[0]})] * 1
    answers += [await strict.post("/login", json={"token": "reef_wrong"}) for _ in range(GUESSES)]
    assert [answer.status_code for answer in answers] == [401] * GUESSES + [429]
    assert int(answers[-1].headers["retry-after"]) > 1


async def test_hosts_of_a_program_are_loopback_alone() -> None:
    assert AccessPolicy().hosts == AllowedHosts()
