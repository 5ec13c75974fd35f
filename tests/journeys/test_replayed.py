"""A whole search whose kernels are written by a model: recorded once by hand, then replayed, each time the same."""

import re
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import Exchange, SearchState
from tests.service import records
from tests.service.asked import SEED, Asked
from tests.service.workbench import Answers

STRATEGIES = ["scratch", "improve", "explore", "cross", "repair", "tune", "agentic"]
BUDGET = 14


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Asked]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))
    asked = await Asked.open(tmp_path, redis_url)
    asked.bench.answers = Answers(
        bundle=lambda source: None if "broken" in source else records.bundle_from(source),
        time_us=lambda bundle: 4.0 + int(bundle[:4], 16) / 10_000,
    )
    yield asked
    await asked.close()


def write(exchange: Exchange) -> str:
    """A kernel for a prompt: an edit of the kernel shown, a template, or a file; those from scratch are broken."""
    number = 1 + int(exchange.digest[:4], 16) % 40  # of the prompt alone, as what a recording answers is
    if exchange.strategy == "tune":
        source = SEED.replace("BLOCK=256", "BLOCK=SIZE").replace("import torch\n", "import torch\n\nSIZE = 256\n", 1)
        return (
            f'```python\n# {number}\n{source}```\n\n```json\n{{"parameters": {{"SIZE": [64, {64 * number}]}}}}\n```\n'
        )
    if exchange.strategy == "agentic" and exchange.step < 2:
        calls = ('{"call": "elites"}', '{"call": "read", "candidate": 0}')
        return f"```json\n{calls[exchange.step]}\n```\n"
    if exchange.strategy in ("improve", "explore"):
        return (
            "<<<<<<< SEARCH\n    return y\n=======\n"
            f"    spare_{number} = {'1' * number}\n    return y\n>>>>>>> REPLACE\n"
        )
    name = "broken" if exchange.strategy == "scratch" else "plain"
    return f"```python\n{SEED}\n\ndef {name}_{number}():\n    return {'2' * number}\n```\n"


async def test_a_replayed_search_finds_the_same_twice(asked: Asked) -> None:
    first = await asked.run(await asked.begin(evaluations=BUDGET, terms={"strategies": STRATEGIES}), write)
    written, recorded = await asked.history(first), await asked.record(first)
    assert first.state is SearchState.DONE and len(written) == BUDGET
    for id in ("again", "and-again"):
        terms = {"strategies": STRATEGIES}
        ended = await asked.run(await asked.begin(id=id, backend="replay", evaluations=BUDGET, terms=terms))
        exchanges = await asked.bench.store.attempts.asked(id)
        assert ended.state is SearchState.DONE
        assert await asked.history(ended) == written
        assert [(item.state.value, item.reason) for item in exchanges] == [("answered", "")] * recorded
    tried = {item.strategy for item in exchanges}
    assert len(tried) >= 4 and {"candidate"} <= {item.outcome for item in exchanges}


async def test_prompts_carry_what_the_judge_said(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=BUDGET, terms={"strategies": STRATEGIES}), write)
    store = asked.bench.store
    prompts = [await store.exchanges.get(item.id) for item in await store.attempts.asked(search.id)]
    later = "\n".join(exchange.user for exchange in prompts)
    assert re.search(r"correct, \d+\.\d{3} times as fast as the seed kernel \(lower bound, predicted\) \[R\d+\]", later)
    assert (
        re.search(r"\| N=1024 \| 1 \| [\d.]+ us \|", later)
        and "Readings at the first benchmark shape, of the launch with the most programs [R" in later
    )
    assert "compile_error" in later and "no such name" in later
    assert all(len((exchange.system + exchange.user).encode()) < 40_000 for exchange in prompts)
