"""Every backend of the table, ready to answer: what the contract suites run over."""

import asyncio
import json
from pathlib import Path
from typing import Any

from service.llm import BACKENDS, Backend, Completion, LlmPrompt, Replay
from service.llm.options import ApiKey, BackendContext, PriceOptions
from tests.service.llm.vendors import Vendor, chat, message, reply, response

KEY = "sk-secret-0123456789"
PROMPT = LlmPrompt(system="You write kernels.", user="Make it faster.\n\u00e9\ud800")
TEXT = "```python\n\u00e9\n```"
COMPLETION = Completion(TEXT, "model-1", 12, 34, None, truncated=True)
PRICE = PriceOptions(input_usd_per_mtok=1.0, output_usd_per_mtok=10.0)


def over_http(
    kind: str, url: str, *, key: str | None = KEY, price: PriceOptions | None = None, **changes: Any
) -> Backend:
    """A backend that calls a vendor."""
    base = url if kind == "anthropic" else url + "/v1"
    options = BACKENDS[kind].options.model_validate({"kind": kind, "base_url": base, "model": "m", **changes})
    return BACKENDS[kind].make(options, BackendContext(Path(), ApiKey(key) if key else None, price))


async def openai(folder: Path, vendor: Vendor) -> Backend:
    vendor.will(reply(body=chat(TEXT, finish_reason="length")))
    return over_http("openai", vendor.url)


async def anthropic(folder: Path, vendor: Vendor) -> Backend:
    vendor.will(reply(body=message(TEXT, stop_reason="max_tokens")))
    return over_http("anthropic", vendor.url)


async def responses(folder: Path, vendor: Vendor) -> Backend:
    vendor.will(reply(body=response(TEXT, cut="max_output_tokens")))
    return over_http("responses", vendor.url)


async def manual(folder: Path, vendor: Vendor) -> Backend:
    async def answered(key: str) -> Completion:
        await asyncio.sleep(0.01)
        return COMPLETION

    options = BACKENDS["manual"].options(kind="manual")
    return BACKENDS["manual"].make(options, BackendContext(folder, wait_for=answered))


async def replay(folder: Path, vendor: Vendor) -> Backend:
    backend = Replay(folder / "recording.jsonl")
    await backend.record(PROMPT, COMPLETION)
    return backend


MAKERS = {"openai": openai, "responses": responses, "anthropic": anthropic, "manual": manual, "replay": replay}


def said(body: object) -> bytes:
    """JSON as a vendor may send it, not all of it ASCII."""
    return json.dumps(body, ensure_ascii=False).encode()
