"""What only chat completions have."""

import pytest

from service.llm import LlmPrompt, LlmRefused
from tests.service.llm.backends import over_http
from tests.service.llm.vendors import chat, reply

PROMPT = LlmPrompt("system", "user", 100)


async def test_what_is_sent(vendor):
    backend = over_http("openai", vendor.url, extra={"temperature": 0.5})
    vendor.will(reply(body=chat()))
    await backend.complete(PROMPT)
    assert vendor.requests[0].path == "/v1/chat/completions"
    assert vendor.requests[0].body == {
        "model": "m",
        "messages": [{"role": "system", "content": "system"}, {"role": "user", "content": "user"}],
        "max_tokens": 100,
        "temperature": 0.5,
    }
    await backend.close()


async def test_the_limit_may_have_another_name(vendor):
    backend = over_http("openai", vendor.url, key=None, max_tokens_field="max_completion_tokens")
    vendor.will(reply(body=chat()))
    await backend.complete(LlmPrompt("", "user", 100))
    assert vendor.requests[0].body["max_completion_tokens"] == 100
    assert [each["role"] for each in vendor.requests[0].body["messages"]] == ["user"]
    assert "authorization" not in vendor.requests[0].headers
    await backend.close()


@pytest.mark.parametrize(
    "body, text",
    [
        (chat(None, refusal="I cannot help with that."), "I cannot help with that."),
        (chat("half", finish_reason="content_filter"), "half"),
    ],
)
async def test_a_refusal_is_paid_all_the_same(vendor, body, text):
    backend = over_http("openai", vendor.url)
    vendor.will(reply(body=body))
    with pytest.raises(LlmRefused) as caught:
        await backend.complete(PROMPT)
    assert caught.value.completion is not None
    assert (caught.value.completion.text, caught.value.completion.output_tokens) == (text, 34)
    await backend.close()


async def test_an_answer_without_text_is_an_empty_one(vendor):
    backend = over_http("openai", vendor.url)
    vendor.will(reply(body=chat(None, finish_reason="length")))
    completion = await backend.complete(PROMPT)
    assert (completion.text, completion.truncated) == ("", True)
    await backend.close()
