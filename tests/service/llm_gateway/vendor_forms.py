"""More vendors as they are: packed responses, refused requests, special tokens, calls of tools as text."""

import json

from tests.service.llm.vendors import chat, events, raw, reply, response
from tests.service.llm_gateway.oddities import (
    CODE,
    FENCED,
    FREE,
    USAGE,
    WELL,
    Case,
    delta,
    failed,
    openai,
    said,
    sent,
)

CALL = f'{{"content": {json.dumps(CODE)}}}'
DRAFT = FENCED.replace("empty_like", "zeros_like")
STREAM = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\n\r\n"
HARMONY = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant<|channel|>commentary"


def refused(words: str, came: str) -> Case:
    """A request that a vendor rejects for good."""
    return failed(400, {"error": {"message": words}}, f"PermanentFailure: {came}")


FORMS: dict[str, Case] = {
    # packed responses
    "packed twice": Case((reply(body=json.dumps(chat(FENCED))),)),
    "AWS's gateway": Case((reply(body={"statusCode": 200, "headers": {}, "body": json.dumps(chat(FENCED))}),)),
    "AWS's gateway, busy": Case((reply(body={"statusCode": 429, "body": '{"error": "slow"}'}), WELL), asked=2),
    "Cloudflare's envelope": Case((reply(body={"success": True, "errors": [], "result": chat(FENCED)}),)),
    "an object for the choices": openai(choices={"message": {"content": FENCED}, "finish_reason": "stop"}),
    "a number for the end": openai(choices=[{"message": {"content": FENCED}, "finish_reason": 1}]),
    "references beside the text": said([{"type": "reference", "reference_ids": [1]}, {"type": "text", "text": FENCED}]),
    "thoughts in details alone": said("", reasoning_details=[{"type": "reasoning.text", "text": FENCED}]),
    "a stream of details": Case(
        (events(delta(reasoning_details=[{"type": "reasoning.text", "text": FENCED}]), delta("", "stop"), USAGE),)
    ),
    "an output without a message": Case(
        (reply(body={**response(FENCED), "output": [{"type": "output_text", "text": FENCED}]}),), kind="responses"
    ),
    "early hints": Case(
        (raw(b"HTTP/1.1 103 Early Hints\r\n\r\n" + STREAM % b"application/json" + json.dumps(chat(FENCED)).encode()),)
    ),
    "a packed stream": Case(
        (raw(STREAM % b"text/event-stream" + sent(delta(FENCED, "stop"), USAGE).replace(b"data: ", b"data: data: ")),)
    ),
    "a stream of another type": Case(
        (raw(STREAM % b"text/plain" + b"retry: 3000\n\n" + sent(delta(FENCED, "stop"), USAGE)),)
    ),
    # refused requests
    "a limit out of range": refused(
        "Invalid max_tokens value, the valid range of max_tokens is [1, 64]", "valid range"
    ),
    "a limit that is too large": refused("max_tokens is only allowed up to 64", "up to 64"),
    "no name for the limit": Case(
        (
            reply(400, {"error": {"message": "Unsupported parameter: 'max_tokens'"}}),
            reply(400, {"error": {"message": "Unsupported parameter: 'max_completion_tokens'"}}),
        ),
        FREE,
        "PermanentFailure: Unsupported parameter: 'max_completion_tokens'",
        calls=0,
        asked=2,
    ),
    "a field named by its place": Case(
        (
            reply(422, {"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]}),
            events(delta(FENCED, "stop"), USAGE),
        ),
        options={"stream": True},
        asked=2,
    ),
    "TGI's small context": failed(
        422, {"error": "`inputs` tokens + `max_new_tokens` must be <= 64"}, "LlmRefused: inputs", calls=1
    ),
    # special tokens
    "Cohere's thoughts": openai(
        text=f"<|START_THINKING|>{DRAFT}<|END_THINKING|><|START_RESPONSE|>{FENCED}<|END_RESPONSE|>"
    ),
    "Apertus's thoughts": openai(text=f"<|inner_prefix|>{DRAFT}<|inner_suffix|>{FENCED}"),
    "Gemma's thoughts": openai(text=f"<|channel>thought\n{DRAFT}<channel|>{FENCED}<turn|>"),
    "GLM's box": openai(text=f"<|begin_of_box|>{FENCED}<|end_of_box|>"),
    "Llama's code": openai(text=f"<|python_tag|>{CODE}<|eom_id|>"),
    # calls of tools as text
    "Qwen's call": openai(text=f"<tool_call>\n<function=write>\n<parameter=content>\n{CODE}</parameter>\n</tool_call>"),
    "an XML call": openai(text=f'<invoke name="write">\n<parameter name="content">{CODE}</parameter>\n</invoke>'),
    "DeepSeek's call": openai(text=f"<\uff5ctool\u2581call\u2581begin\uff5c>write<\uff5ctool\u2581sep\uff5c>{CALL}"),
    "Kimi's call": openai(
        text=f"<|tool_call_begin|>functions.write:0<|tool_call_argument_begin|>{CALL}<|tool_call_end|>"
    ),
    "Mistral's call": openai(text=f"[TOOL_CALLS]write[ARGS]{CALL}"),
    "Mistral's calls": openai(text=f'[TOOL_CALLS][{{"name": "write", "arguments": {CALL}}}]'),
    "harmony's call": openai(text=f"{HARMONY} to=functions.write <|constrain|>json<|message|>{CALL}<|call|>"),
}
