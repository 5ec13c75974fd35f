"""Backends against a server of another maker: LiteLLM's proxy, which answers with mock texts and needs no weights.

`make peers` installs it, in a venv of its own because it brings a hundred packages.
"""

import asyncio
import json
import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.llm import BACKENDS, Backend, LlmPrompt, PermanentFailure, TransientFailure
from service.llm.options import ApiKey, BackendContext, PriceOptions
from tests.service.inquiry import inquiry

pytestmark = pytest.mark.slow

LITELLM = Path(__file__).parents[2] / ".venv" / "peers" / "bin" / "litellm"
START_S = 120.0
TEXT = "```python\nimport torch\n```"
MODELS = f"""
model_list:
  - model_name: good
    litellm_params: {{model: openai/good, api_key: none, mock_response: {json.dumps(TEXT)}}}
  - model_name: busy
    litellm_params: {{model: openai/busy, api_key: none, mock_response: litellm.RateLimitError}}
  - model_name: broken
    litellm_params: {{model: openai/broken, api_key: none, mock_response: litellm.InternalServerError}}
litellm_settings: {{num_retries: 0, telemetry: false}}
router_settings: {{num_retries: 0, disable_cooldowns: true}}
"""


class Peer:
    """A running proxy: where it is, and its key."""

    def __init__(self, port: int, key: str) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.key = key

    def backend(self, kind: str, model: str, key: str | None = None) -> Backend:
        """One of our backends that calls it."""
        base = f"{self.url}/v1" if kind == "openai" else self.url
        options = BACKENDS[kind].options.model_validate({"kind": kind, "base_url": base, "model": model})
        price = PriceOptions(input_usd_per_mtok=1.0, output_usd_per_mtok=1.0)
        return BACKENDS[kind].make(options, BackendContext(Path(), ApiKey(key or self.key), price))


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Peer]:
    if not LITELLM.exists():
        reason = "no LiteLLM here; make peers installs it"
        pytest.fail(reason) if os.environ.get("CI") else pytest.skip(reason)
    folder = tmp_path_factory.mktemp("peer")
    (folder / "models.yaml").write_text(MODELS)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    key = f"sk-{secrets.token_urlsafe(32)}"
    environment = {**os.environ, "LITELLM_MASTER_KEY": key, "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    command = [LITELLM, "--config", folder / "models.yaml", "--host", "127.0.0.1", "--port", str(port)]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=log, stderr=log)
    try:
        wait_for(process, f"http://127.0.0.1:{port}/health/liveliness", folder / "log")
        yield Peer(port, key)
    finally:
        process.terminate()
        process.wait(timeout=30)


def wait_for(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    """Return once a server answers."""
    deadline = time.monotonic() + START_S
    while process.poll() is None and time.monotonic() < deadline:
        try:
            if httpx.get(url, trust_env=False).status_code == 200:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    pytest.fail(f"the peer does not start: {log.read_text()[-2000:]}")


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
async def test_an_answer_with_its_counts(peer: Peer, kind: str) -> None:
    backend = peer.backend(kind, "good")
    completion = await backend.complete(LlmPrompt("You write kernels.", "Make it faster."))
    assert completion.text == TEXT
    assert completion.input_tokens > 0
    assert completion.output_tokens > 0
    assert completion.cost_usd == pytest.approx((completion.input_tokens + completion.output_tokens) / 1e6)
    await backend.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("model", ["busy", "broken"])
async def test_trouble_that_passes(peer: Peer, kind: str, model: str) -> None:
    backend = peer.backend(kind, model)
    with pytest.raises(TransientFailure) as caught:
        await backend.complete(LlmPrompt("", "x"))
    assert not caught.value.paid
    await backend.close()


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("model, key", [("good", "sk-wrong-key"), ("no-such-model", None)])
async def test_trouble_that_stays(peer: Peer, kind: str, model: str, key: str | None) -> None:
    backend = peer.backend(kind, model, key)
    with pytest.raises(PermanentFailure) as caught:
        await backend.complete(LlmPrompt("", "x"))
    assert peer.key not in caught.value.detail
    await backend.close()


async def test_a_search_pays_what_the_peer_counted(peer: Peer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REEF_TEST_PEER_KEY", peer.key)
    text = f"""
[backends.local]
kind = "openai"
base_url = "{peer.url}/v1"
model = "good"
key_env = "REEF_TEST_PEER_KEY"
[prices.good]
input_usd_per_mtok = 1.0
output_usd_per_mtok = 1.0
"""
    async with inquiry(tmp_path, text, calls=15) as asked:
        asking = (asked.ask(number) for number in range(20))
        answers: list[Any] = await asyncio.gather(*asking, return_exceptions=True)
        paid = [answer.completion for answer in answers if not isinstance(answer, BaseException)]
        assert len(paid) == 15
        calls, tokens, usd = await asked.spent()
        assert (calls, tokens) == (15, sum(each.input_tokens + each.output_tokens for each in paid))
        assert usd == pytest.approx(sum(each.cost_usd for each in paid))
