"""What every backend of the table must do, and what those over HTTP make of each failure of a vendor."""

import asyncio
import inspect
import logging
import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from service.llm import (
    BACKENDS,
    Backend,
    BackendError,
    LlmPrompt,
    LlmRefused,
    PermanentFailure,
    TransientFailure,
    transport,
)
from tests.service.llm.backends import COMPLETION, KEY, MAKERS, PRICE, PROMPT, over_http
from tests.service.llm.vendors import chat, flood, message, raw, reply, response, trickle

OVER_HTTP = ("openai", "responses", "anthropic")
GOOD = {"openai": chat(), "responses": response(), "anthropic": message()}


@pytest.fixture(params=[kind for kind, backend in BACKENDS.items() if not backend.submits])
async def backend(request, tmp_path, vendor):
    made = await MAKERS[request.param](tmp_path, vendor)
    yield made
    await made.close()


@pytest.fixture(params=OVER_HTTP)
async def caller(request, vendor):
    """A backend over HTTP, and what a good answer of its vendor is."""
    made = over_http(request.param, vendor.url, price=PRICE, timeout_s=1.5)
    yield made, GOOD[request.param]
    await made.close()


async def test_an_answer(backend):
    assert await backend.complete(PROMPT, "exchange") == COMPLETION


async def test_answers_to_many_at_once(backend):
    assert await asyncio.gather(*(backend.complete(PROMPT) for _ in range(20))) == [COMPLETION] * 20


async def test_a_call_can_be_cancelled(backend):
    call = asyncio.create_task(backend.complete(PROMPT))
    await asyncio.sleep(0)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await backend.complete(PROMPT) == COMPLETION


def test_the_table():
    assert MAKERS.keys() == {kind for kind, backend in BACKENDS.items() if not backend.submits}
    for kind, backend in BACKENDS.items():
        assert issubclass(backend, Backend)
        assert backend.kind == kind
        assert inspect.iscoroutinefunction(backend.complete)
        assert "kind" in backend.options.model_fields


async def failing(caller, vendor, step, prompt=PROMPT):
    """The failure that a step of the vendor's leads to."""
    vendor.will(step)
    with pytest.raises(BackendError) as caught:
        await caller[0].complete(prompt, "exchange")
    assert len(vendor.requests) == 1, "a backend never repeats a call by itself"
    assert KEY not in f"{caught.value!r} {caught.value.detail}"
    return caught.value


@pytest.mark.parametrize("status", [408, 409, 425, 429, 500, 502, 503, 529])
async def test_a_vendor_in_trouble_is_asked_again_for_nothing(caller, vendor, status):
    failure = await failing(caller, vendor, reply(status, {"error": {"message": "busy"}}))
    assert isinstance(failure, TransientFailure)
    assert (failure.paid, failure.retry_after_s) == (False, None)
    assert failure.detail == f"status {status}: busy"


@pytest.mark.parametrize("status", [504, 520, 522, 524])
async def test_a_proxy_that_lost_patience_leaves_us_in_the_dark(caller, vendor, status):
    failure = await failing(caller, vendor, reply(status, b"<html>", kind="text/html"))
    assert isinstance(failure, TransientFailure)
    assert failure.paid


@pytest.mark.parametrize("status", [400, 401, 402, 403, 404, 405, 422, 501])
async def test_what_no_repetition_mends_parks_the_backend(caller, vendor, status):
    failure = await failing(caller, vendor, reply(status, {"error": {"message": f"no: {KEY}\x1b[31m"}}))
    assert isinstance(failure, PermanentFailure)
    assert not failure.paid
    assert "\x1b" not in failure.detail


async def test_without_money_no_repetition_helps(caller, vendor):
    body = {"error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}
    assert isinstance(await failing(caller, vendor, reply(429, body)), PermanentFailure)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_redirects_are_not_followed(caller, vendor, status):
    failure = await failing(caller, vendor, reply(status, {}, Location="http://169.254.169.254/"))
    assert isinstance(failure, PermanentFailure)
    assert "redirect" in failure.detail


@pytest.mark.parametrize("said, wait_s", [("7", 7.0), ("1.5", 1.5), ("99999999", 3600.0), ("soon", None), ("-3", None)])
async def test_the_wait_that_a_vendor_asks_for_is_passed_on(caller, vendor, said, wait_s):
    failure = await failing(caller, vendor, reply(429, {}, Retry_After=said))
    assert failure.retry_after_s == wait_s


async def test_a_wait_may_be_a_date(caller, vendor):
    until = format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)
    failure = await failing(caller, vendor, reply(503, {}, Retry_After=until))
    assert 50 < failure.retry_after_s <= 60


@pytest.mark.parametrize(
    "step",
    [
        pytest.param(reply(body=b'{"choices": [', kind="application/json"), id="malformed JSON"),
        pytest.param(reply(body=b"[" * 100_000), id="nested without end"),
        pytest.param(reply(body=[1, 2]), id="no object"),
        pytest.param(reply(body={}), id="an empty object"),
        pytest.param(reply(body={"choices": [], "content": 7}), id="another protocol"),
        pytest.param(reply(body={"id": 1}, length=5000), id="a body cut short"),
        pytest.param(raw(b""), id="no answer at all"),
        pytest.param(raw(b"nonsense\r\n\r\n"), id="no HTTP"),
        pytest.param(trickle(), id="a byte now and then"),
        pytest.param(reply(body={}, after_s=4.0), id="too late"),
        pytest.param(flood(2 * 2**20), id="a huge body"),
    ],
)
async def test_a_broken_answer_may_have_been_paid(caller, vendor, step, monkeypatch):
    monkeypatch.setattr(transport, "MOST_BODY_BYTES", 2**20)
    started = time.monotonic()
    failure = await failing(caller, vendor, step)
    assert isinstance(failure, TransientFailure)
    assert failure.paid
    assert time.monotonic() - started < 3.5, "the deadline holds for the whole call"


@pytest.mark.parametrize("kind", ["text/html", "text/event-stream", ""])
async def test_what_is_not_json_is_not_the_vendor(caller, vendor, kind):
    failure = await failing(caller, vendor, reply(body=b"<html>", kind=kind))
    assert isinstance(failure, PermanentFailure)
    assert failure.paid


async def test_nothing_compressed_is_unpacked(caller, vendor):
    failure = await failing(caller, vendor, reply(body=b"\x1f\x8b", Content_Encoding="gzip"))
    assert isinstance(failure, PermanentFailure)


async def test_nobody_there_costs_nothing(caller, vendor):
    vendor.will(reply(body={}))
    backend = over_http(caller[0].kind, "http://127.0.0.1:1")
    with pytest.raises(TransientFailure, match="no connection") as caught:
        await backend.complete(PROMPT)
    assert not caught.value.paid
    await backend.close()


@pytest.mark.parametrize("text", ["maximum context length is 8192", "prompt is too long: 9 > 8", "content_filter"])
async def test_a_prompt_that_cannot_be_answered_is_refused(caller, vendor, text):
    failure = await failing(caller, vendor, reply(400, {"error": {"message": text}}))
    assert isinstance(failure, LlmRefused)
    assert failure.completion is None


async def test_a_prompt_goes_out_whole_and_the_key_only_in_its_header(caller, vendor):
    backend, good = caller
    vendor.will(reply(body=good))
    completion = await backend.complete(PROMPT, "exchange-1")
    assert completion.cost_usd == pytest.approx((12 * 1.0 + 34 * 10.0) / 1e6)
    (request,) = vendor.requests
    assert "Make it faster.\n\u00e9" in str(request.body.get("input") or request.body["messages"][-1]["content"])
    assert request.headers["idempotency-key"] == "exchange-1"
    assert request.headers["host"] == f"127.0.0.1:{vendor.port}"
    carriers = [name for name, value in request.headers.items() if KEY in value]
    assert carriers in (["authorization"], ["x-api-key"])
    assert KEY not in str(request.body) + request.path


async def test_the_key_is_nowhere_else(caller, vendor, caplog):
    backend, good = caller
    caplog.set_level(logging.DEBUG)
    for step in (reply(body=good), reply(401, {"error": {"message": KEY}}), reply(500, {"error": KEY})):
        vendor.will(step)
        try:
            await backend.complete(PROMPT)
        except BackendError as error:
            assert KEY not in repr(error) + error.detail + repr(error.__cause__)
    assert KEY not in caplog.text
    assert KEY not in repr(vars(backend)) + repr(backend)


async def test_without_counts_as_many_tokens_are_assumed_as_there_could_be(caller, vendor):
    backend, good = caller
    vendor.will(reply(body={name: value for name, value in good.items() if name != "usage"}))
    completion = await backend.complete(LlmPrompt("s" * 10, "u" * 20, 100))
    assert completion.input_tokens >= 30
    assert completion.output_tokens >= len(completion.text)
    assert completion.cost_usd is not None


async def test_half_a_character_is_replaced(caller, vendor):
    backend, _ = caller
    body = {"openai": chat("a\ud83d"), "responses": response("a\ud83d"), "anthropic": message("a\ud83d")}[backend.kind]
    vendor.will(reply(body=body))
    assert (await backend.complete(PROMPT)).text == "a?"
