"""What only messages have."""

import pytest

from service.llm import LlmPrompt, LlmRefused
from service.llm.anthropic import AnthropicOptions
from tests.service.llm.backends import KEY, over_http
from tests.service.llm.vendors import message, reply

PROMPT = LlmPrompt("system", "user", 100)


async def test_what_is_sent(vendor):
    backend = over_http("anthropic", vendor.url, extra={"temperature": 0.5})
    vendor.will(reply(body=message()))
    await backend.complete(PROMPT)
    request = vendor.requests[0]
    assert request.path == "/v1/messages"
    assert (request.headers["x-api-key"], request.headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert request.body == {
        "model": "m",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": "user"}],
        "system": "system",
        "temperature": 0.5,
    }
    await backend.close()


async def test_only_text_is_answer_and_cached_tokens_count(vendor):
    backend = over_http("anthropic", vendor.url)
    content = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    usage = {"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 10, "cache_creation_input_tokens": 100}
    vendor.will(reply(body=message(content=content, usage=usage)))
    completion = await backend.complete(PROMPT)
    assert (completion.text, completion.input_tokens, completion.output_tokens) == ("ab", 111, 2)
    await backend.close()


async def test_a_refusal_is_paid_all_the_same(vendor):
    backend = over_http("anthropic", vendor.url)
    vendor.will(reply(body=message("no", stop_reason="refusal")))
    with pytest.raises(LlmRefused) as caught:
        await backend.complete(PROMPT)
    assert caught.value.completion is not None
    assert caught.value.completion.output_tokens == 34
    await backend.close()


def test_the_address_is_known():
    assert AnthropicOptions(kind="anthropic", model="m").base_url == "https://api.anthropic.com"
