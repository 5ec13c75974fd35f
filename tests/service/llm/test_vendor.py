"""What all vendors have in common: the form of a request follows a refusal, and what is not counted is assumed."""

from pathlib import Path

import pytest

from service.llm import LlmPrompt, PermanentFailure
from service.llm.openai import OpenaiOptions
from service.llm.options import BackendContext, PriceOptions
from service.llm.vendor import completion_of
from service.llm.vendor_reply import TokenCounts, VendorReply
from tests.service.llm.backends import KEY, over_http
from tests.service.llm.vendors import Vendor, chat, events, message, reply

PROMPT = LlmPrompt("system", "user", 100)
OPTIONS = OpenaiOptions(kind="openai", base_url="http://127.0.0.1", model="m", reasoning_tokens=50)


def refusal(words: str, status: int = 400) -> object:
    return reply(status, {"error": {"message": words}})


@pytest.mark.parametrize(
    "words, changed",
    [
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", {"max_completion_tokens": 100}),
        ("System role not supported", {"messages": [{"role": "user", "content": "system\n\nuser"}]}),
        ("Developer instruction is not enabled for models/gemma-3-27b-it", {"max_tokens": 100}),
        ("This model only support stream mode, please enable the stream parameter", {"stream": True}),
    ],
)
async def test_a_refused_form_is_changed_once_and_for_all(
    vendor: Vendor, words: str, changed: dict[str, object]
) -> None:
    backend = over_http("openai", vendor.url)
    vendor.will(refusal(words), reply(body=chat("a")), reply(body=chat("b")))
    assert [(await backend.complete(PROMPT)).text for _ in range(2)] == ["a", "b"]
    assert len(vendor.requests) == 3
    for request in vendor.requests[1:]:
        assert changed.items() <= request.body.items()
    await backend.close()


async def test_forms_are_changed_one_after_the_other_and_not_for_ever(vendor: Vendor) -> None:
    backend = over_http("openai", vendor.url, stream=True)
    vendor.will(refusal("unknown field: stream_options"), refusal("system messages are not supported"), events())
    await backend.complete(PROMPT)
    assert [message["role"] for message in vendor.requests[-1].body["messages"]] == ["user"]
    assert "stream_options" not in vendor.requests[-1].body
    await backend.close()
    stubborn = over_http("openai", vendor.url)
    vendor.will(refusal("max_tokens and max_completion_tokens are not supported"))
    with pytest.raises(PermanentFailure, match="are not supported"):
        await stubborn.complete(PROMPT)
    assert len(vendor.requests) == 3 + 2
    await stubborn.close()


@pytest.mark.parametrize("words", ["max_tokens is too large: 100. This model supports at most 50", "no such model"])
async def test_other_refusals_change_nothing(vendor: Vendor, words: str) -> None:
    backend = over_http("openai", vendor.url)
    vendor.will(refusal(words))
    with pytest.raises(PermanentFailure, match=words[:12]):
        await backend.complete(PROMPT)
    assert len(vendor.requests) == 1
    await backend.close()


async def test_a_key_may_have_a_header_of_its_own(vendor: Vendor) -> None:
    backend = over_http("openai", vendor.url, key_header="api-key", query={"api-version": "1"})
    vendor.will(reply(body=chat()))
    await backend.complete(PROMPT)
    assert vendor.requests[0].headers["api-key"] == KEY
    assert "authorization" not in vendor.requests[0].headers
    assert vendor.requests[0].path == "/v1/chat/completions?api-version=1"
    await backend.close()


@pytest.mark.parametrize("kind, field", [("openai", "max_tokens"), ("anthropic", "max_tokens")])
async def test_the_limit_of_the_options_goes_out(vendor: Vendor, kind: str, field: str) -> None:
    backend = over_http(kind, vendor.url, max_tokens=5000, extra={"thinking": {"budget_tokens": 4000}})
    vendor.will(reply(body={"openai": chat(), "anthropic": message()}[kind]))
    await backend.complete(PROMPT)
    assert vendor.requests[0].body[field] == 5000
    await backend.close()


def made(text: str, tokens: TokenCounts) -> tuple[int, int, float | None]:
    price = PriceOptions(input_usd_per_mtok=2.0, output_usd_per_mtok=4.0)
    found = completion_of(PROMPT, BackendContext(Path(), price=price), OPTIONS, VendorReply(text, tokens=tokens))
    return found.input_tokens, found.output_tokens, found.cost_usd


def test_a_completion_has_its_price() -> None:
    assert made("t", TokenCounts(10, 20)) == (10, 20, pytest.approx(100 / 1e6))


@pytest.mark.parametrize("tokens", [TokenCounts(), TokenCounts(0, 0)])
def test_what_is_not_counted_is_as_much_as_can_be(tokens: TokenCounts) -> None:
    assert made("t", tokens)[:2] == (64 + 10, 100 + 50)


def test_no_answer_may_have_no_tokens() -> None:
    assert made("", TokenCounts(10, 0))[:2] == (10, 0)
