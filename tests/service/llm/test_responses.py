"""Responses API: requests, responses and streams."""

import pytest

from service.llm import LlmPrompt, LlmRefused
from tests.service.llm.backends import over_http
from tests.service.llm.vendors import Vendor, events, reply, response

PROMPT = LlmPrompt("system", "user", 100)


async def test_the_request_keeps_nothing_at_the_vendor(vendor: Vendor) -> None:
    backend = over_http("responses", vendor.url, extra={"reasoning": {"effort": "low"}})
    vendor.will(reply(body=response()))
    await backend.complete(PROMPT)
    assert vendor.requests[0].path == "/v1/responses"
    assert vendor.requests[0].body == {
        "model": "m",
        "instructions": "system",
        "input": "user",
        "max_output_tokens": 100,
        "store": False,
        "reasoning": {"effort": "low"},
    }
    await backend.close()


async def test_a_refusal_is_paid_all_the_same(vendor: Vendor) -> None:
    backend = over_http("responses", vendor.url)
    content = [{"type": "refusal", "refusal": "I cannot."}]
    vendor.will(reply(body=response(output=[{"type": "message", "content": content}])))
    with pytest.raises(LlmRefused, match="I cannot") as caught:
        await backend.complete(PROMPT)
    assert caught.value.completion is not None
    assert caught.value.completion.output_tokens == 34
    await backend.close()


async def test_a_stream_ends_with_the_whole_response(vendor: Vendor) -> None:
    backend = over_http("responses", vendor.url, stream=True)
    done = ("response.completed", {"response": response("whole")})
    vendor.will(events(("response.output_text.delta", {"delta": "wh"}), done, end=""))
    assert (await backend.complete(PROMPT)).text == "whole"
    vendor.will(events(("response.output_text.delta", {"delta": "wh"}), end=""))
    completion = await backend.complete(PROMPT)
    assert (completion.text, completion.truncated, completion.output_tokens) == ("wh", True, 100)
    await backend.close()
