"""Vendors as they are: each oddity is one call through the gateway, with what came of it and its price to the cent.

A prompt of 31 characters is at most 95 tokens (`P`), an answer at most 100 (`A`); a million tokens cost $1 in, $10 out.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from service.emitters.llm.answer_faults import UnusableAnswer
from service.emitters.llm.answers import read_answer
from service.llm import LlmRefused, PermanentFailure, TransientFailure
from service.llm_gateway import backends as pool
from service.llm_gateway import gateway as module
from tests.service.inquiry import endpoint, inquiry
from tests.service.llm.vendors import Serve, chat, events, message, raw, reply, response, vendor
from tests.service.llm_gateway.oddities import (
    ALL,
    CODE,
    FENCED,
    FREE,
    GOOD,
    USAGE,
    WELL,
    A,
    Case,
    P,
    call,
    counted,
    delta,
    failed,
    lines,
    openai,
    said,
    sent,
    streamed,
    torn,
)
from tests.service.llm_gateway.vendor_forms import FORMS

TOO_MUCH, NO_BALANCE = "TransientFailure: longer than", "PermanentFailure: insufficient balance"
TOOL = [{"type": "tool_use", "id": "t", "name": "write", "input": {"content": CODE}}]
HARMONY = f"<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>{FENCED}<|return|>"
DETAILS = {"completion_tokens_details": {"reasoning_tokens": 60}}
COUNTS = {"prompt_tokens": 12, "completion_tokens": 34}
START = ("message_start", {"message": {**message(""), "usage": {"input_tokens": 12, "output_tokens": 1}}})
WHOLE = ("content_block_delta", {"index": 0, "delta": {"type": "text_delta", "text": FENCED}})
REASONED = [{"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm."}]}]

CASES: dict[str, Case] = {
    # content
    "plain": openai(),
    "content as parts": said([{"type": "text", "text": FENCED[:20]}, {"type": "text", "text": FENCED[20:]}]),
    "content as texts": said([FENCED[:20], FENCED[20:]]),
    "content as one part": said({"type": "text", "text": FENCED}),
    "content as values": said([{"type": "text", "text": {"value": FENCED}}]),
    "legacy text": openai(choices=[{"text": FENCED, "finish_reason": "stop"}]),
    "second choice": openai(choices=[{"message": {"content": ""}}, {"message": {"content": FENCED}}]),
    "no content": said(None, "empty"),
    "no message": openai(came="empty", choices=[{"finish_reason": "stop"}]),
    "no choices but counts": openai(came="empty", choices=[]),
    "unknown fields and types": openai(id=7, model=None, created="today", system_fingerprint=[]),
    "half a character": openai(text=FENCED.replace("scale(x):", "scale(x):  # \ud83d")),
    "broken bytes": Case((reply(body=json.dumps(chat(FENCED)).encode().replace(b"model-1", b"m\xff")),)),
    "another content type": Case((reply(body=chat(FENCED), kind="text/plain"),)),
    "a byte order mark": Case((reply(body=b"\xef\xbb\xbf" + json.dumps(chat(FENCED)).encode()),)),
    "Ollama": Case(
        (reply(body={"message": {"content": FENCED}, "done": True, "prompt_eval_count": 12, "eval_count": 34}),)
    ),
    # counts
    "usage is empty": openai(ALL, usage={}),
    "usage is null": openai(ALL, usage=None),
    "usage is absent": openai(ALL, usage=[]),
    "counts are null": openai(ALL, usage={"prompt_tokens": None, "completion_tokens": None}),
    "counts are zero": openai(ALL, usage={"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}),
    "counts are negative": openai(ALL, usage={"prompt_tokens": -1, "completion_tokens": -7}),
    "counts are absurd": openai(ALL, usage={"prompt_tokens": 1e300, "completion_tokens": 10**15}),
    "counts are fractions": openai((13, 35), usage={"prompt_tokens": 12.2, "completion_tokens": 34.01}),
    "counts are texts": openai(usage={"prompt_tokens": "12", "completion_tokens": "34"}),
    "one count": openai((12, A), usage={"prompt_tokens": 12}),
    "the other count": openai((P, 34), usage={"completion_tokens": 34}),
    "other names": openai(usage={"input_tokens": 12, "output_tokens": 34}),
    "a total": openai(usage={"prompt_tokens": 12, "total_tokens": 46}),
    "thoughts in the total only": openai(
        (12, 94), usage={"prompt_tokens": 12, "completion_tokens": 34, "total_tokens": 106, **DETAILS}
    ),
    "thoughts beside the answer": Case(
        (reply(body=chat(FENCED, usage={"prompt_tokens": 12, "completion_tokens": 34, **DETAILS})),),
        (12, 94),
        options={"reasoning_tokens": 100},
    ),
    "thoughts within the answer": openai(
        usage={"prompt_tokens": 12, "completion_tokens": 34, "completion_tokens_details": {"reasoning_tokens": 20}}
    ),
    "cached prompts": Case(
        (reply(body=message(FENCED, usage={"input_tokens": 2, "cache_read_input_tokens": 10, "output_tokens": 34})),),
        kind="anthropic",
    ),
    # thoughts
    "a thought in tags": openai(text=f"<think>\n{FENCED}\n</think>\n{FENCED}"),
    "a lone closing tag": openai(text=f"So: {FENCED}\n</think>\n\n{FENCED}"),
    "Mistral's tags": openai(text=f"[THINK]Hm.[/THINK]{FENCED}"),
    "other tags": openai(text=f"<thinking>{FENCED}</thinking>{FENCED}"),
    "harmony": openai(text=HARMONY),
    "harmony without tokens": openai(text=f"analysisHm.assistantfinal{FENCED}"),
    "thoughts in a field": said(FENCED, reasoning_content="Hm."),
    "thoughts as parts": said([{"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}, FENCED]),
    "all in the thoughts": said("", reasoning_content=FENCED),
    "all in OpenRouter's thoughts": said(None, reasoning=FENCED),
    "cut while it thought": said("", "truncated: raise max_tokens", "length", reasoning_content=FENCED),
    "cut within the tags": openai(came="truncated: raise max_tokens", text="<think>Hm", finish_reason="length"),
    "cut in harmony": openai(came="truncated: raise max_tokens", text="<|channel|>analysis<|message|>Hm"),
    "nothing after the thoughts": openai(came="empty", text="<think>Hm.</think>"),
    # ends
    "cut": openai(came="truncated", text=FENCED[:-4], finish_reason="length"),
    "cut, says Mistral": openai(came="truncated", text=CODE, finish_reason="model_length"),
    "cut, says Gemini": openai(came="truncated", text=CODE, finish_reason="MAX_TOKENS"),
    "cut behind the code": openai(text=FENCED + "This", finish_reason="length"),
    "filtered": openai(came="LlmRefused: refused to answer", finish_reason="content_filter"),
    "filtered, says Gemini": openai(came="LlmRefused", text="", finish_reason="SAFETY"),
    "a refusal": said(None, "LlmRefused: I cannot", refusal="I cannot."),
    "a declining text": openai(came="refused", text="I'm sorry, I can't help with that."),
    # tools
    "a tool call": said(None, finish_reason="tool_calls", tool_calls=[call(json.dumps({"code": CODE}))]),
    "arguments as an object": said("", finish_reason="tool_calls", tool_calls=[call({"code": CODE})]),
    "a function call": said(None, finish_reason="function_call", function_call={"name": "f", "arguments": CODE}),
    "a search by tools": said(None, "not_python|no_code", tool_calls=[call('{"query": "softmax"}', "search")]),
    "a tool of Anthropic's": Case((reply(body=message(content=TOOL, stop_reason="tool_use")),), kind="anthropic"),
    # errors inside a success
    "OpenRouter's 502": Case(
        (reply(body={"error": {"code": 502, "message": "upstream"}}), reply(body=chat(FENCED))), asked=2
    ),
    "OpenRouter's 402": failed(200, {"error": {"code": 402, "message": "Out of credits"}}, "PermanentFailure: Out of"),
    "OpenRouter's 403": failed(
        200,
        {"error": {"code": 403, "message": "flagged", "metadata": {"reasons": ["x"]}}},
        "LlmRefused: flagged",
        calls=1,
    ),
    "an error without a code": failed(200, {"error": {"message": "odd"}}, "TransientFailure: odd", ALL, 1),
    "an error with counts": failed(
        200, {"error": {"message": "odd"}, "usage": chat()["usage"]}, "LlmRefused: odd", GOOD, 1
    ),
    "an error in a choice": openai(came="LlmRefused: gone", choices=[{"error": {"code": 502, "message": "gone"}}]),
    "an error beside an answer": openai(error={"message": "moderation latency"}),
    "vLLM's error": failed(
        200, {"object": "error", "message": "no such model", "code": 404}, "PermanentFailure: no such"
    ),
    "Google's list": failed(200, [{"error": {"code": 400, "message": "bad schema"}}], "PermanentFailure: bad schema"),
    "no words at all": failed(200, {"status": 7}, "TransientFailure: it holds status", ALL, 1),
    # errors
    "a wrong key": failed(401, {"error": {"message": "Incorrect API key"}}, "PermanentFailure: not accept the key"),
    "a region": failed(403, {"error": {"message": "Country not supported"}}, "PermanentFailure: status 403: Country"),
    "moderation": failed(403, {"error": {"message": "Flagged by moderation"}}, "LlmRefused: Flagged", calls=1),
    "Azure's filter": failed(
        400,
        {"error": {"code": "content_filter", "message": "The response was filtered"}},
        "LlmRefused: was filtered",
        calls=1,
    ),
    "a small context": failed(400, {"message": "maximum context length is 64"}, "LlmRefused: maximum context", calls=1),
    "too large": failed(413, b"<html>nginx</html>", "LlmRefused: status 413", calls=1),
    "a field it does not know": failed(422, {"detail": [{"msg": "bad field"}]}, "PermanentFailure: bad field"),
    "no such model": failed(404, {"error": "model 'm' not found"}, "PermanentFailure: model 'm' not found"),
    "a page of HTML": Case((reply(body=b"<html>", kind="text/html"),), ALL, "PermanentFailure: is base_url right"),
    "a proxy's timeout": failed(504, b"", "TransientFailure: status 504", ALL, 1),
    "busy, then well": Case((reply(529, {}), reply(503, b"x"), reply(body=chat(FENCED))), asked=3),
    "half a body": Case((reply(body=chat(FENCED), length=9999),), ALL, "TransientFailure"),
    "nothing": Case((raw(b""),), ALL, "TransientFailure"),
    # forms of requests
    "another name for the limit": Case(
        (reply(400, {"error": "'max_tokens' is not supported. Use 'max_completion_tokens'"}), reply(body=chat(FENCED))),
        asked=2,
    ),
    "no system role": Case(
        (reply(400, {"error": {"message": "System role not supported"}}), reply(body=chat(FENCED))), asked=2
    ),
    "streaming only": Case(
        (reply(400, {"message": "only support stream mode"}), events(delta(FENCED, "stop"), USAGE)), asked=2
    ),
    "a stream that was not asked for": streamed(delta(FENCED), delta("", "stop"), USAGE),
    # streams
    "a stream": streamed(delta(FENCED[:9]), delta(FENCED[9:], "stop"), USAGE, options={"stream": True}),
    "a stream without counts": streamed(delta(FENCED, "stop"), tokens=ALL, options={"stream": True}),
    "a stream without an end": streamed(delta(FENCED), tokens=ALL, options={"stream": True}, end=""),
    "a stream cut in the code": streamed(delta(FENCED[:-4]), tokens=ALL, came="truncated", end=""),
    "a stream of thoughts": streamed(delta(reasoning_content="Hm."), delta(FENCED, "stop"), USAGE),
    "a stream cut in thoughts": streamed(
        delta(reasoning_content="Hm."), delta("", "length"), USAGE, came="truncated: raise max_tokens"
    ),
    "a stream of tool calls": streamed(
        delta(tool_calls=[{"index": 0, "function": {"name": "f", "arguments": '{"code": "' + CODE[:5]}}]),
        delta(tool_calls=[{"index": 0, "function": {"arguments": json.dumps(CODE)[6:-1] + '"}'}}]),
        delta("", "tool_calls"),
        USAGE,
    ),
    "two calls at one place of a stream": streamed(
        delta(tool_calls=[{"index": 0, **call('{"q": "x"}', "think")}]),
        delta(tool_calls=[{"index": 0, **call(json.dumps({"code": CODE})), "id": "d"}], finish="tool_calls"),
        USAGE,
    ),
    "an error in a stream": streamed(
        {"error": {"code": 429, "message": "slow"}},
        came="TransientFailure: slow",
        tokens=FREE,
        calls=0,
        asked=module.ATTEMPTS,
    ),
    "an empty stream": streamed(tokens=(P, A), came="truncated"),
    "Anthropic's stream": streamed(
        ("message_start", {"message": {**message(""), "usage": {"input_tokens": 12, "output_tokens": 1}}}),
        ("content_block_start", {"index": 0, "content_block": {"type": "thinking", "thinking": ""}}),
        ("content_block_delta", {"index": 0, "delta": {"type": "thinking_delta", "thinking": "Hm."}}),
        ("content_block_start", {"index": 1, "content_block": {"type": "text", "text": ""}}),
        ("content_block_delta", {"index": 1, "delta": {"type": "text_delta", "text": FENCED}}),
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 34}}),
        ("message_stop", {}),
        kind="anthropic",
        options={"stream": True},
        end="",
    ),
    "Anthropic's stream, overloaded": streamed(
        ("error", {"error": {"type": "overloaded_error", "message": "Overloaded"}}),
        kind="anthropic",
        came="TransientFailure: Overloaded",
        tokens=ALL,
        end="",
    ),
    # Anthropic
    "Anthropic": Case((reply(body=message(FENCED)),), kind="anthropic"),
    "Anthropic, cut in thought": Case(
        (reply(body=message(content=[{"type": "thinking", "thinking": "Hm"}], stop_reason="max_tokens")),),
        came="truncated: raise max_tokens",
        kind="anthropic",
    ),
    "Anthropic refuses": Case((reply(body=message("no", stop_reason="refusal")),), GOOD, "LlmRefused: no", "anthropic"),
    "Anthropic, no counts": Case((reply(body=message(FENCED, usage=None)),), ALL, kind="anthropic"),
    # Responses API
    "a response": Case((reply(body=response(FENCED)),), kind="responses"),
    "a response with reasoning": Case(
        (reply(body=response(output=[*REASONED, *response(FENCED)["output"]])),), kind="responses"
    ),
    "a response cut in thought": Case(
        (reply(body=response(cut="max_output_tokens", output=REASONED)),),
        came="truncated: raise max_tokens",
        kind="responses",
    ),
    "a response that failed": Case(
        (reply(body=response(status="failed", output=[], usage=None, error={"code": "server_error", "message": "x"})),),
        ALL,
        "TransientFailure: server_error: x",
        "responses",
    ),
    "a response that calls a tool": Case(
        (reply(body=response(output=[{"type": "function_call", "name": "f", "arguments": json.dumps({"c": CODE})}])),),
        kind="responses",
    ),
    "a queued response": Case(
        (reply(body=response(output=[], usage=None, status="queued")),), ALL, "TransientFailure: queued", "responses"
    ),
    "a response cancelled": Case(
        (reply(body=response(output=[], status="cancelled")),), GOOD, "LlmRefused: cancelled", "responses"
    ),
    "a response's stream without output at its end": streamed(
        ("response.output_text.delta", {"delta": FENCED}),
        ("response.completed", {"response": response(output=[])}),
        kind="responses",
        end="",
    ),
    "a response's stream that refuses": streamed(
        ("response.refusal.delta", {"delta": "I cannot."}),
        kind="responses",
        end="",
        tokens=ALL,
        came="LlmRefused: I cannot",
    ),
    "a server that knows no `store`": Case(
        (reply(400, {"error": {"message": "Unknown parameter: 'store'."}}), reply(body=response(FENCED))),
        kind="responses",
        asked=2,
    ),
    # what comes over the wire
    "gzip": Case((reply(body=gzip.compress(json.dumps(chat(FENCED)).encode()), Content_Encoding="gzip"),)),
    "gzip without end": Case((reply(body=gzip.compress(b" " * 2**24), Content_Encoding="gzip"),), ALL, TOO_MUCH),
    "zstd": Case((reply(body=b"x", Content_Encoding="zstd"),), ALL, "PermanentFailure: compressed (zstd)"),
    "a gzipped error": Case(
        (reply(400, gzip.compress(b'{"error": "maximum context length is 9"}'), Content_Encoding="gzip"),),
        FREE,
        "LlmRefused: maximum context",
        calls=1,
    ),
    "UTF-16": Case((reply(body=json.dumps(chat(FENCED)).encode("utf-16")),)),
    "nothing at all": Case((raw(b"HTTP/1.1 204 No Content\r\n\r\n"),), ALL, "TransientFailure: empty"),
    "comments before JSON": Case((reply(body=b": OPENROUTER PROCESSING\n\n" + json.dumps(chat(FENCED)).encode()),)),
    "JSON lines": Case((reply(body=lines(delta(FENCED, "stop"), USAGE), kind="application/x-ndjson"),)),
    "Ollama's lines": Case(
        (
            reply(
                body=lines(
                    {"message": {"content": FENCED[:9]}, "done": False},
                    {"message": {"content": FENCED[9:]}, "done": True, "prompt_eval_count": 12, "eval_count": 34},
                )
            ),
        )
    ),
    "an envelope": Case((reply(body={"success": True, "result": chat(FENCED)}),)),
    "a whole stream that breaks": Case((torn(sent(delta(FENCED, "stop"), USAGE)),)),
    "half a stream that breaks": Case((torn(sent(delta(FENCED[:-4]))),), ALL, "truncated"),
    "a stream that breaks before a text": Case(
        (torn(sent(delta(""))),), ALL, "TransientFailure: the connection broke before"
    ),
    "a stream with an event of errors": streamed(
        ("error", {"message": "slow", "code": 429}), came="TransientFailure: slow", tokens=FREE, calls=0, asked=6
    ),
    "two choices in a stream": streamed(
        delta(FENCED[:9]), {"choices": [{"index": 1, "delta": {"content": "x"}}]}, delta(FENCED[9:], "stop"), USAGE
    ),
    "all so far in each chunk": streamed(
        *({"choices": [{"index": 0, "message": {"content": FENCED[:end]}}]} for end in (3, 30, 99)), USAGE
    ),
    "an end without a reason": streamed(delta(f"Change: x\n{CODE}"), USAGE),
    # counts of streams and of gateways
    "Groq's counts": streamed(delta(FENCED, "stop"), {"choices": [], "x_groq": {"usage": COUNTS}}),
    "Moonshot's counts": streamed({"choices": [{**delta(FENCED, "stop")["choices"][0], "usage": COUNTS}]}),
    "Bedrock's counts": openai(usage={"inputTokens": 12, "outputTokens": 34, "totalTokens": 46}),
    "Google's counts": openai(usage=None, usageMetadata={"promptTokenCount": 12, "totalTokenCount": 46}),
    "Cohere's counts": openai(usage={"billed_units": COUNTS, "tokens": {"input_tokens": 900}}),
    "counts that grow": streamed(counted(FENCED[:9], 10), counted(FENCED[9:], 34), counted("", 34, "stop")),
    "counts of each chunk": streamed(counted(FENCED[:9], 20), counted(FENCED[9:], 14), delta("", "stop")),
    "counts of each chunk and of all": streamed(counted(FENCED[:9], 20), counted(FENCED[9:], 14), USAGE),
    "Anthropic's first count alone": streamed(
        START,
        WHOLE,
        ("message_delta", {"delta": {"stop_reason": "end_turn"}}),
        kind="anthropic",
        end="",
        tokens=(12, A),
    ),
    "an empty last count of the prompt": streamed(
        START,
        WHOLE,
        ("message_delta", {"delta": {"stop_reason": "end_turn"}, "usage": {"input_tokens": 0, "output_tokens": 34}}),
        kind="anthropic",
        end="",
    ),
    # failures in other words
    "Google's limit per minute": Case(
        (reply(429, {"error": {"message": "You exceeded your quota, see billing. Please retry in 0.02s."}}), WELL),
        asked=2,
    ),
    "Groq's full tier": Case((reply(498, {"error": {"message": "Flex tier capacity exceeded"}}), WELL), asked=2),
    "Cloudflare without a server": Case((reply(521, b"<html>"), reply(530, b"<html>"), WELL), asked=3),
    "a request that a gateway ended": failed(499, b"", "TransientFailure: status 499", ALL, 1),
    "a model that failed": failed(424, {"message": "ModelErrorException"}, "TransientFailure: ModelError", ALL, 1),
    "a call of a tool, refused": failed(
        400,
        {"error": {"message": "model called a tool", "code": "tool_use_failed", "failed_generation": CODE}},
        "TransientFailure: called a tool",
        ALL,
        1,
    ),
    "a small context as 500": failed(500, {"error": "exceeds the available context size"}, "LlmRefused", calls=1),
    "MiniMax's words": failed(
        200, {"base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, NO_BALANCE, ALL, 1
    ),
    "an end for a reason of the vendor's": said(None, "LlmRefused: MALFORMED_CALL", "MALFORMED_CALL"),
    "no resources while it thought": said("", "LlmRefused: insufficient_s", "insufficient_system_resource"),
    # answers in other forms
    "words beside a tool call": said("I write it now.", tool_calls=[call(json.dumps({"code": CODE}))]),
    "words beside Anthropic's tool": Case(
        (reply(body=message(content=[{"type": "text", "text": "So."}, *TOOL], stop_reason="tool_use")),),
        kind="anthropic",
    ),
    "a tool call in the text": openai(
        text=f"<tool_call>\n{json.dumps({'name': 'w', 'arguments': {'content': CODE}})}\n</tool_call>"
    ),
    "a thought without an end": openai(text=f"<think>So:\n{FENCED}"),
    # Azure and gateways
    "Azure": Case(
        (reply(body=chat(FENCED)),), options={"key_header": "api-key", "key_file": "k", "query": {"api-version": "1"}}
    ),
    "headers of one's own": Case((reply(body=chat(FENCED)),), options={"headers": {"HTTP-Referer": "x"}}),
}
CASES |= FORMS


def written(value: object) -> str:
    """Write a value of the file."""
    if isinstance(value, dict):
        return "{" + ", ".join(f'"{name}" = {written(each)}' for name, each in value.items()) + "}"
    return str(value).lower() if isinstance(value, bool) else json.dumps(value)


def configured(url: str, case: Case) -> str:
    """Write the file for a case."""
    base = {"base_url": url if case.kind == "anthropic" else f"{url}/v1"}
    lines = "".join(f"{name} = {written(value)}\n" for name, value in case.options.items())
    return endpoint(url, kind=case.kind, **base).replace("\n\n[prices", f"\n{lines}\n[prices")


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
async def test_each_costs_what_it_costs(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FIRST_WAIT_S", 0.001)
    (tmp_path / "k").write_text("sk-1")
    async with vendor() as running:
        running.will(*case.steps)
        async with inquiry(tmp_path, configured(running.url, case)) as asked:
            came = "code"
            try:
                answer = (await asked.ask()).completion
                assert "def scale" in read_answer(answer.text, "scale", truncated=answer.truncated).source
            except UnusableAnswer as error:
                came = f"{error.fault.value}: {error.sentence}"
            except (LlmRefused, TransientFailure, PermanentFailure) as error:
                came = f"{type(error).__name__}: {error.detail}"
            word, _, detail = case.came.partition(": ")
            assert came.partition(":")[0] in word.split("|") and detail in came, came
            prompt, written = case.tokens
            usd = pytest.approx((prompt * 1.0 + written * 10.0) / 1e6, abs=1e-9)
            assert await asked.spent() == await asked.spent("local") == (case.calls, prompt + written, usd)
            assert len(running.requests) == case.asked
            assert await asked.store.spending.outstanding(asked.search.id) == []


def test_there_are_enough() -> None:
    assert len(CASES) >= 60


@pytest.mark.parametrize(
    "step, words, tokens",
    [
        (reply(400, {"error": "maximum context length is 64"}), "maximum context length", FREE),
        (reply(400, {"error": {"code": "content_filter"}}), "no answer to 5 prompts in a row", FREE),
        (reply(body=chat("", finish_reason="length")), "raise max_tokens", GOOD),
        (reply(body=chat(None, refusal="No.")), "No.", GOOD),
        (reply(body=b"{"), "not JSON", ALL),
    ],
)
async def test_a_vendor_without_answers_is_asked_a_few_times(
    step: Serve, words: str, tokens: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pool, "FIRST_REST_S", 0.001)
    async with vendor() as running:
        running.will(step)
        async with inquiry(tmp_path, endpoint(running.url)) as asked:
            for number in range(20):
                try:
                    await asked.ask(number)
                except (LlmRefused, TransientFailure, PermanentFailure):
                    continue
            assert len(running.requests) == pool.FRUITLESS
            (status, _) = asked.llm_gateway.backends.statuses()
            assert words in (status.disabled_reason or "")
            assert (await asked.spent())[:2] == (pool.FRUITLESS, pool.FRUITLESS * sum(tokens))


async def test_the_pauses_grow_and_an_answer_ends_them(tmp_path: Path) -> None:
    async with vendor() as running:
        running.will(reply(400, {"error": "content_filter"}), reply(body=chat(FENCED)), reply(400, {"error": "safety"}))
        async with inquiry(tmp_path, endpoint(running.url)) as asked:
            limiter = asked.llm_gateway.backends.choose(("local",))
            with pytest.raises(LlmRefused):
                await asked.ask(0)
            assert 0.5 < limiter.retry_after_s <= pool.FIRST_REST_S
            limiter.failed("again")
            assert pool.FIRST_REST_S < limiter.retry_after_s <= 2 * pool.FIRST_REST_S
            await asked.ask(1)
            limiter.failed("and again")
            assert limiter.retry_after_s <= pool.FIRST_REST_S
            assert limiter.disabled_reason is None


async def test_limits_of_calls_hold_for_refused_prompts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "FIRST_REST_S", 0.001)
    async with vendor() as running:
        running.will(reply(400, {"error": "content_filter"}))
        async with inquiry(tmp_path, endpoint(running.url), calls=2) as asked:
            for number in range(6):
                with pytest.raises((LlmRefused, Exception)):
                    await asked.ask(number)
            assert len(running.requests) == 2


@pytest.mark.parametrize(
    "options, need",
    [
        ({}, (P, A)),
        ({"max_tokens": 5000}, (P, 5000)),
        ({"max_tokens": 5000, "reasoning_tokens": 7000}, (P, 12_000)),
        ({"max_tokens": 5000, "extra": {"thinking": {"budget_tokens": 4000}}}, (P + 37, 5000)),
        ({"extra": {"response_format": {"x": "y" * 100}}}, (P + 130, A)),
    ],
)
async def test_the_reservation_knows_what_a_call_can_cost(
    options: dict[str, Any], need: tuple[int, int], tmp_path: Path
) -> None:
    usd = (need[0] * 1.0 + need[1] * 10.0) / 1e6
    async with vendor() as running:
        running.will(reply(504, b""))
        async with inquiry(tmp_path, configured(running.url, Case((), options=options)), usd=usd) as asked:
            with pytest.raises(TransientFailure):
                await asked.ask()
            assert await asked.spent() == (1, sum(need), pytest.approx(usd))
            sent = running.requests[0].body
            assert sent["max_tokens"] == options.get("max_tokens", A)
            with pytest.raises(Exception, match="spent or reserved"):
                await asked.ask(1)


async def test_a_vendor_that_bills_more_than_the_limit_is_not_asked_again(tmp_path: Path) -> None:
    async with vendor() as running:
        running.will(reply(body=chat(FENCED, usage={"prompt_tokens": 12, "completion_tokens": A + 1})))
        async with inquiry(tmp_path, endpoint(running.url)) as asked:
            assert (await asked.ask()).completion.output_tokens == A + 1
            with pytest.raises(PermanentFailure, match="set reasoning_tokens"):
                await asked.ask(1)
            assert (await asked.spent())[:2] == (1, 12 + A + 1)


async def test_a_vendor_that_answered_rejects_the_prompt_and_not_all(tmp_path: Path) -> None:
    async with vendor() as running:
        running.will(WELL, reply(400, {"error": {"message": "unknown trouble"}}), WELL)
        async with inquiry(tmp_path, endpoint(running.url)) as asked:
            await asked.ask(0)
            with pytest.raises(LlmRefused, match="status 400: unknown trouble"):
                await asked.ask(1)
            assert (await asked.ask(2)).completion.text == FENCED
            assert (await asked.spent())[:2] == (3, 2 * sum(GOOD))


async def test_a_vendor_that_bills_a_prompt_of_its_own_is_not_asked_again(tmp_path: Path) -> None:
    async with vendor() as running:
        running.will(reply(body=chat(FENCED, usage={"prompt_tokens": 5000, "completion_tokens": 34})))
        async with inquiry(tmp_path, endpoint(running.url)) as asked:
            assert (await asked.ask()).completion.input_tokens == 5000
            with pytest.raises(PermanentFailure, match=f"5034 in all where {P + A} were reserved"):
                await asked.ask(1)
