"""Asking: nothing is lost, nothing is paid twice, no budget is exceeded, whatever a vendor does."""

import asyncio
import contextlib
import logging
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from uuid6 import uuid7

from archive.records import ExchangeState, NewCharge, SpendingLimits
from archive.store import Store
from service.errors import InvalidInput
from service.llm import BudgetExhausted, LlmPrompt, LlmRefused, PermanentFailure, TransientFailure, digest
from service.llm_gateway import gateway as module
from service.llm_gateway.backends import BackendLimiter
from service.llm_gateway.gateway import LlmGateway
from service.requests import LlmSettings
from tests.archive.samples import new_exchange, stored_search
from tests.service.inquiry import PROMPT, Inquiry, endpoint, inquiry, purpose, until
from tests.service.llm.vendors import Vendor, chat, held, raw, reply, vendor

NEED = 64 + len(PROMPT.system) + len(PROMPT.user) + 100
"""Tokens that one call reserves."""
GOOD = reply(body=chat())
SLOW = reply(body=chat(), after_s=0.5)


@pytest.fixture(name="vendor")
async def _vendor() -> AsyncIterator[Vendor]:
    async with vendor() as running:
        yield running.will(GOOD)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits of milliseconds instead of seconds."""
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.01)
    monkeypatch.setattr(module, "STOP_S", 1.0)


@pytest.fixture
async def asked(tmp_path: Any, vendor: Vendor) -> AsyncIterator[Inquiry]:
    async with inquiry(tmp_path, endpoint(vendor.url)) as found:
        yield found


async def test_an_answer_is_kept_with_its_purpose_and_its_cost(asked: Inquiry) -> None:
    answer = await asked.ask(3, parents=("a",), cell=5, claims={"best": "job"})
    assert (answer.backend, answer.completion.text) == ("local", "```python\n```")
    kept = await asked.store.exchanges.get(answer.exchange)
    assert (kept.state, kept.ordinal, kept.parents, kept.cell) == (ExchangeState.ANSWERED, 3, ("a",), 5)
    assert (kept.claims, kept.system, kept.user) == ({"best": "job"}, PROMPT.system, PROMPT.user)
    cost = (12 * 1.0 + 34 * 10.0) / 1e6
    assert kept.cost_usd == pytest.approx(cost)
    assert await asked.spent() == await asked.spent("local") == (1, 46, pytest.approx(cost))


async def test_the_same_prompt_of_the_same_proposal_is_paid_once(asked: Inquiry, vendor: Vendor) -> None:
    first = await asked.ask()
    assert await asked.ask() == first
    again = LlmGateway(asked.store, asked.folder)
    assert await again(PROMPT, purpose(asked.search.id)) == first
    await again.close()
    assert len(vendor.requests) == 1
    assert (await asked.ask(1)).exchange != first.exchange
    assert (await asked.ask(step=1)).exchange != first.exchange
    assert len(vendor.requests) == 3


async def test_who_asks_the_same_at_once_shares_the_answer(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(SLOW)
    answers = await asyncio.gather(*(asked.ask() for _ in range(5)))
    assert len({answer.exchange for answer in answers}) == len(vendor.requests) == 1


async def test_what_costs_nothing_is_repeated(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(500, {}), reply(429, {}, Retry_After="0.05"), reply(503, {}), GOOD)
    answer = await asked.ask()
    assert answer.completion.output_tokens == 34
    assert len(vendor.requests) == 4
    assert len({request.headers["idempotency-key"] for request in vendor.requests}) == 1
    assert (await asked.spent())[0] == 1


async def test_repetitions_end(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(503, {"error": "busy"}))
    with pytest.raises(TransientFailure, match="status 503"):
        await asked.ask()
    assert len(vendor.requests) == module.ATTEMPTS
    assert await asked.spent() == (0, 0, 0.0)
    assert await asked.states() == ["failed"]
    vendor.will(GOOD)
    assert (await asked.ask()).completion.text == "```python\n```"
    assert await asked.states() == ["answered"]


async def test_a_long_wait_is_not_waited_for(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(429, {}, Retry_After="3000"))
    for ordinal in range(2):
        with pytest.raises(TransientFailure) as caught:
            await asked.ask(ordinal)
        assert caught.value.retry_after_s == pytest.approx(3000, abs=5)
    assert len(vendor.requests) == 1, "the backend rests"
    assert asked.llm_gateway.backends.statuses()[0].retry_after_s > 2900


@pytest.mark.parametrize("step", [reply(body=b"{"), raw(b""), reply(504, {}), reply(body=chat(), length=9999)])
async def test_what_may_have_been_paid_counts_and_is_not_repeated(asked: Inquiry, vendor: Vendor, step: Any) -> None:
    vendor.will(step)
    with pytest.raises(TransientFailure):
        await asked.ask()
    assert len(vendor.requests) == 1
    calls, tokens, usd = await asked.spent()
    assert (calls, tokens) == (1, NEED)
    assert usd == pytest.approx(((NEED - 100) * 1.0 + 100 * 10.0) / 1e6)
    vendor.will(GOOD)
    assert (await asked.ask(1)).completion.text == "```python\n```", "the search goes on"
    assert (await asked.spent())[:2] == (2, NEED + 46)


async def test_a_permanent_failure_parks_the_backend(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(401, {}), GOOD)
    for ordinal in range(3):
        with pytest.raises(PermanentFailure, match="does not accept the key"):
            await asked.ask(ordinal)
    assert len(vendor.requests) == 1
    assert asked.llm_gateway.available(("local", "manual")) == ("manual",)
    assert await asked.spent() == (0, 0, 0.0)
    assert asked.llm_gateway.backends.enable("local").disabled_reason is None
    assert (await asked.ask()).completion.text == "```python\n```"


async def test_another_backend_answers_for_one_that_is_parked(tmp_path: Any, vendor: Vendor) -> None:
    text = endpoint(vendor.url, "good") + endpoint(vendor.url, "bad", key_env="REEF_TEST_NO_KEY").split("[prices")[0]
    async with inquiry(tmp_path, text, backends=("bad", "good")) as asked:
        assert (await asked.ask()).backend == "good"
        with pytest.raises(PermanentFailure, match="REEF_TEST_NO_KEY is empty"):
            await asked.ask(1, "bad")
        with pytest.raises(PermanentFailure, match="not one of this search's"):
            await asked.ask(1, "manual")


async def test_a_refusal_is_paid_and_final(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(body=chat(None, refusal="No.")))
    for _ in range(2):
        with pytest.raises(LlmRefused, match="No") as caught:
            await asked.ask()
        assert caught.value.completion is not None
        assert caught.value.completion.text == "No."
    assert len(vendor.requests) == 1
    assert (await asked.spent())[:2] == (1, 46)
    assert await asked.states() == ["refused"]


async def test_a_refusal_that_said_nothing_is_a_call_that_costs_nothing(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(400, {"error": "prompt is too long"}))
    with pytest.raises(LlmRefused):
        await asked.ask()
    assert await asked.spent() == (1, 0, 0.0)
    assert await asked.states() == ["refused"]


@pytest.mark.parametrize(
    "limits, calls",
    [({"calls": 3}, 3), ({"tokens": 3 * 46 + NEED}, 4), ({"usd": 0.0025}, 4), ({"calls": 3, "tokens": 46}, 0)],
)
async def test_a_budget_is_kept(tmp_path: Any, vendor: Vendor, limits: dict[str, Any], calls: int) -> None:
    async with inquiry(tmp_path, endpoint(vendor.url), **limits) as asked:
        for ordinal in range(calls):
            await asked.ask(ordinal)
        with pytest.raises(BudgetExhausted, match=r"in total .* spent or reserved"):
            await asked.ask(99)
        assert len(vendor.requests) == calls
        assert len(await asked.states()) == calls, "what was not asked leaves nothing behind"


async def test_a_budget_is_exact_when_many_ask_at_once(tmp_path: Any, vendor: Vendor) -> None:
    vendor.will(SLOW)
    async with inquiry(tmp_path, endpoint(vendor.url, max_concurrency=50), calls=7) as asked:
        results = await asyncio.gather(*(asked.ask(number) for number in range(30)), return_exceptions=True)
        assert sum(isinstance(each, BudgetExhausted) for each in results) == 23
        assert len(vendor.requests) == 7
        assert (await asked.spent())[:2] == (7, 7 * 46)


async def test_a_backends_share_is_kept(tmp_path: Any, vendor: Vendor) -> None:
    async with inquiry(tmp_path, endpoint(vendor.url) + "[backends.local.per_search]\ncalls = 1\n") as asked:
        await asked.ask()
        with pytest.raises(BudgetExhausted, match="at 'local' 1 of 1 calls"):
            await asked.ask(1)


async def test_dollars_cannot_be_counted_without_a_price(tmp_path: Any, vendor: Vendor) -> None:
    text = endpoint(vendor.url).split("[prices")[0]
    async with inquiry(tmp_path, text, usd=1.0) as asked:
        with pytest.raises(BudgetExhausted, match="price of this backend is unknown"):
            await asked.ask()
        with pytest.raises(InvalidInput, match="price of 'local' is unknown") as caught:
            asked.llm_gateway.require(LlmSettings(backends=("local",), usd=1.0))
        assert caught.value.field == "llm.usd"
        with pytest.raises(InvalidInput, match=r"not a backend; .*backends.toml has: local, manual"):
            asked.llm_gateway.require(LlmSettings(backends=("nobody",)))


async def test_an_unknown_price_stays_unknown(tmp_path: Any, vendor: Vendor) -> None:
    async with inquiry(tmp_path, endpoint(vendor.url).split("[prices")[0]) as asked:
        assert (await asked.ask()).completion.cost_usd is None
        (purse, _) = await asked.store.spending.of_search(asked.search.id)
        assert (purse.usd, purse.unpriced) == (0.0, 1)


async def test_a_search_without_terms_may_ask_nobody(asked: Inquiry) -> None:
    other = await stored_search(asked.store)
    with pytest.raises(PermanentFailure, match="may not ask models"):
        await asked.llm_gateway(PROMPT, purpose(other.id))


async def test_concurrency_is_limited(tmp_path: Any, vendor: Vendor) -> None:
    vendor.will(reply(body=chat(), after_s=0.2))
    async with inquiry(tmp_path, endpoint(vendor.url, max_concurrency=2)) as asked:
        calls = asyncio.gather(*(asked.ask(number) for number in range(6)))
        seen = set()
        while not calls.done():
            seen.add(asked.llm_gateway.backends.statuses()[0].under_way)
            await asyncio.sleep(0.005)
        assert len(await calls) == 6
        assert max(seen) == 2


async def test_who_gives_up_while_a_call_is_under_way_loses_nothing(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(SLOW)
    call = asyncio.create_task(asked.ask())
    await until(lambda: _sent(vendor))
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await until(lambda: _are(asked, ["answered"]))
    assert (await asked.spent())[:2] == (1, 46)
    assert (await asked.ask()).completion.text == "```python\n```"
    assert len(vendor.requests) == 1


async def test_an_interrupted_command_cancels_its_calls_and_makes_no_more(asked: Inquiry, vendor: Vendor) -> None:
    release = asyncio.Event()
    vendor.will(held(GOOD, release))
    call = asyncio.create_task(asked.ask())
    await until(lambda: _sent(vendor))
    await asked.llm_gateway.cancel()
    with pytest.raises(TransientFailure, match="stopped before the answer"):
        await call
    assert await _are(asked, ["failed"])
    assert (await asked.spent())[0] == 1, "it may have been charged"
    with pytest.raises(TransientFailure, match="is stopping"):
        await asked.ask(1)
    assert len(vendor.requests) == 1
    release.set()


async def test_who_gives_up_before_the_call_pays_nothing(tmp_path: Any, vendor: Vendor) -> None:
    release = asyncio.Event()
    vendor.will(held(GOOD, release))
    async with inquiry(tmp_path, endpoint(vendor.url, max_concurrency=1)) as asked:
        limiter = asked.llm_gateway.backends.choose(("local",))
        first = asyncio.create_task(asked.ask(0))
        await until(lambda: _sent(vendor))
        second = asyncio.create_task(asked.ask(1))
        await until(lambda: _loaded(limiter, 2))
        second.cancel()
        with pytest.raises(asyncio.CancelledError):
            await second
        await until(lambda: _loaded(limiter, 1))
        release.set()
        await first
        assert len(vendor.requests) == 1
        assert (await asked.spent())[:2] == (1, 46)


async def test_the_end_waits_for_what_is_paid_for(tmp_path: Any, vendor: Vendor) -> None:
    vendor.will(SLOW)
    async with inquiry(tmp_path, endpoint(vendor.url)) as asked:
        call = asyncio.create_task(asked.ask())
        await until(lambda: _sent(vendor))
        await asked.llm_gateway.close()
        assert (await call).completion.output_tokens == 34


async def test_the_end_does_not_wait_for_ever(tmp_path: Any, vendor: Vendor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "STOP_S", 0.1)
    vendor.will(reply(body=chat(), after_s=4.0))
    async with inquiry(tmp_path, endpoint(vendor.url)) as asked:
        call = asyncio.create_task(asked.ask())
        await until(lambda: _sent(vendor))
        await asked.llm_gateway.close()
        with pytest.raises(TransientFailure, match="service stopped"):
            await call
        assert await asked.states() == ["failed"]
        assert (await asked.spent())[:2] == (1, NEED), "nobody knows, so it counts"


async def test_what_a_kill_left_open_is_accounted_for(asked: Inquiry, vendor: Vendor) -> None:
    await asked.ask()
    for ordinal, state in ((1, ExchangeState.ASKED), (2, ExchangeState.WAITING)):
        await _left_open(asked, ordinal, state)
    killed = LlmGateway(asked.store, asked.folder)
    await killed(PROMPT, purpose(asked.search.id, 9))
    assert await asked.states() == ["answered", "failed", "waiting", "answered"]
    assert (await asked.spent())[:2] == (4, 46 + 1000 + 1000 + 46)
    assert len(await asked.store.spending.outstanding(asked.search.id)) == 1, "what waits keeps its reservation"
    await killed(PROMPT, purpose(asked.search.id, 1))
    assert (await asked.store.exchanges.list(search=asked.search.id))[2].state is ExchangeState.ANSWERED
    await killed.close()


async def test_the_archive_out_of_reach_for_a_moment_costs_no_answer(
    asked: Inquiry, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEP_PAUSE_S", 0.05)
    vendor.will(SLOW)
    call = asyncio.create_task(asked.ask())
    await until(lambda: _sent(vendor))
    await asyncio.to_thread(_alter, asked.folder, "ALTER TABLE exchanges RENAME TO hidden")
    await asyncio.sleep(0.8)
    await asyncio.to_thread(_alter, asked.folder, "ALTER TABLE hidden RENAME TO exchanges")
    assert (await call).completion.output_tokens == 34
    assert await asked.states() == ["answered"]


async def test_a_key_is_in_no_log_and_in_no_archive(
    tmp_path: Any, vendor: Vendor, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    key = "sk-very-secret-key-42"
    monkeypatch.setenv("REEF_TEST_KEY", key)
    caplog.set_level(logging.DEBUG)
    async with inquiry(tmp_path, endpoint(vendor.url, key_env="REEF_TEST_KEY")) as asked:
        vendor.will(GOOD, reply(500, {"error": key}), reply(400, {"error": f"bad {key}"}))
        await asked.ask()
        with pytest.raises(PermanentFailure) as caught:
            await asked.ask(1)
        assert key not in repr(caught.value) + repr(asked.llm_gateway.backends.statuses())
        assert asked.llm_gateway.backends.statuses()[0].disabled_reason is not None
    assert vendor.requests[0].headers["authorization"] == f"Bearer {key}"
    assert key not in caplog.text
    for path in tmp_path.rglob("*"):
        assert path.is_dir() or key.encode() not in path.read_bytes(), path


async def test_hostile_text_passes_through(asked: Inquiry, vendor: Vendor) -> None:
    vendor.will(reply(body=chat("\0\x1b[2J\u202e{{ 7*7 }}")))
    answer = await asked.ask(prompt=LlmPrompt("", "half a character \ud83d and \0", 10))
    assert answer.completion.text == "\0\x1b[2J\u202e{{ 7*7 }}"
    assert "half a character ?" in vendor.requests[0].body["messages"][0]["content"]
    assert (await asked.store.exchanges.get(answer.exchange)).text == answer.completion.text


def _alter(folder: Path, statement: str) -> None:
    """Run one statement from outside, waiting for a writer of this loop, which therefore must not wait for us."""
    with contextlib.closing(sqlite3.connect(folder / "reef.db", isolation_level=None, timeout=60)) as other:
        other.execute(statement)


async def _sent(vendor: Vendor) -> bool:
    return bool(vendor.requests)


async def _loaded(limiter: BackendLimiter, calls: int) -> bool:
    return limiter.load == calls


async def _are(asked: Inquiry, states: list[str]) -> bool:
    return await asked.states() == states


async def _left_open(asked: Inquiry, ordinal: int, state: ExchangeState) -> None:
    """What a killed process leaves behind: an exchange with a reservation."""
    new = new_exchange(asked.search.id, ordinal, id=str(uuid7()), digest=digest(PROMPT), state=state)
    exchange = await asked.store.exchanges.open(new)
    charge = NewCharge(f"charge {ordinal}", exchange.id, asked.search.id, "local", "improve", 1000, 0.5)
    assert await asked.store.spending.reserve(charge, SpendingLimits(), SpendingLimits()) is not None


async def test_agents_and_models_are_named_apart(tmp_path: Path, store: Store) -> None:
    (tmp_path / "backends.toml").write_text('[backends.robot]\nkind = "command"\ncommand = ["robot"]\n')
    gateway = LlmGateway(store, tmp_path)
    gateway.require(LlmSettings(agents=("robot",), calls=2))
    for terms, field in (
        (LlmSettings(backends=("robot",)), "llm.backends"),
        (LlmSettings(agents=("manual",)), "llm.agents"),
        (LlmSettings(agents=("nobody",)), "llm.agents"),
    ):
        with pytest.raises(InvalidInput) as refused:
            gateway.require(terms)
        assert refused.value.field == field
    for limit in ({"usd": 1.0}, {"tokens": 10}):
        with pytest.raises(ValueError, match="limit it by calls"):
            LlmSettings(agents=("robot",), **limit)
    await gateway.close()
