"""Recorded exchanges that are posted again: parents before children, with the cells that their prompts aim at."""

import argparse
from pathlib import Path

import pytest

from archive.descriptors import DEFAULT_AXES, DESCRIPTORS
from archive.records import ExchangeState, SearchState
from benchmarks.models import RECORDED, RECORDING, RULES, Row, line_of, model_row, read_recording, results, rule_rows
from benchmarks.models_again import cell_of, matched, parents_of, post, requests, seed_of
from benchmarks.record import RESULTS
from service.cli.in_process import serve_inside
from service.llm import LlmPrompt, digest
from service.llm_gateway.schemas import Prompt
from service.settings import DATABASE_FILE, Settings
from tests.benchmarks.test_models import asked
from tests.service import records
from tests.service.asked import SEED, Asked

__all__ = ["asked"]
COMMITTED = read_recording(RESULTS / RECORDING)


def kernel(name: str) -> str:
    return f"{SEED}\n\ndef {name}():\n    return 0\n"


def line(strategy: str, name: str, parent: str, shown: str = "") -> Row:
    """One line as `benchmarks.models` writes it; only what posting reads."""
    asked = {"system": "Write a kernel.", "user": f"{name}\n\n{shown}", "max_tokens": 8192}
    return {
        "prompt": digest(LlmPrompt(**asked)),
        "completion": {
            "text": f"Change: {name}\n\n```python\n{kernel(name)}```\n",
            "model": "someone",
            "input_tokens": 0,
            "output_tokens": 0,
            "cost_usd": None,
            "truncated": False,
        },
        "asked": asked,
        "strategy": strategy,
        "parent": parent,
    }


async def replay(asked: Asked, lines: list[Row]) -> tuple[str, list[int]]:
    """Post all lines, in as many rounds as it takes; returns the search and how many were left after each round."""
    search = await asked.begin(evaluations=len(lines) + 2, terms={"strategies": ["scratch", "improve", "explore"]})
    left = []
    for _ in range(200):
        search = await asked.step(search)
        exchanges = await asked.bench.store.exchanges.list(search=search.id, state=ExchangeState.ANSWERED)
        if search.state is not SearchState.RUNNING or any(each.outcome is None for each in exchanges):
            continue
        if left and not left[-1]:
            counts = await asked.bench.store.candidates.count(search.id)
            if not counts.in_flight:
                return search.id, left
            continue
        paused = await asked.bench.store.searches.set_state(search.id, SearchState.PAUSED, only_from=(search.state,))
        await asked.step(paused)
        left.append(await post(asked.bench.store, paused, lines))
        search = await asked.bench.store.searches.set_state(
            search.id, SearchState.RUNNING, only_from=(SearchState.PAUSED,)
        )
    raise AssertionError("answers are left")


async def test_answers_are_posted_after_their_parents_and_read_as_answers(asked: Asked, tmp_path: Path) -> None:
    second = f"Kernel 2 lies in the cell a.\n\n```python\n{kernel('first')}```\n"
    lines = [
        line("repair", "mended", kernel("broken")),
        line("scratch", "first", SEED),
        line("improve", "broken", SEED),
        line("cross", "both", SEED, second),
    ]
    search, left = await replay(asked, lines)
    assert left == [2, 0], "what repairs or crosses waits for its parents"
    store = asked.bench.store
    known = {each.id: each for each in await store.candidates.list(search, limit=100)}
    exchanges = [await store.exchanges.get(each.id) for each in await store.attempts.asked(search)]
    replayed = {each.user.split()[0]: each for each in exchanges if each.template == RECORDED}
    assert len(replayed) == 4 and {each.outcome for each in replayed.values()} == {"candidate"}
    parents = {name: [known[id].source for id in replayed[name].parents] for name in ("mended", "both")}
    assert parents == {"mended": [kernel("broken")], "both": [SEED, kernel("first")]}
    outcomes = {known[each.candidate or ""].outcome for each in replayed.values()}
    assert outcomes == {"correct", "compile_error"} and known[replayed["both"].candidate or ""].parents

    async with serve_inside(Settings(data_dir=tmp_path, local_workers=0), working=False) as reef:
        said = [await reef.wire.read(Prompt, f"/prompts/{each.id}") for each in replayed.values()]
    (result,) = [each async for each in results(tmp_path)]
    row = await model_row(store, result, [await line_of(store, result.search, each) for each in said])
    assert (row["answers"], row["first_tries"], row["repair_rate"], row["evaluations"]) == (4, 3, 1.0, 5)


async def test_the_rules_go_on_until_they_have_as_much_as_the_model(asked: Asked, tmp_path: Path) -> None:
    model = await asked.bench.store.searches.get((await replay(asked, [line("scratch", "first", SEED)]))[0])
    rules = await asked.begin(evaluations=50, llm=None, emitters=("tune",), id="search-2")
    path = tmp_path / DATABASE_FILE
    assert not await matched(asked.bench.store, path, rules, 0.0)
    for _ in range(100):
        rules = await asked.step(rules)
        counts = await asked.bench.store.candidates.count(rules.id)
        if counts.evaluated > 4 and not counts.in_flight:
            break
    assert await matched(asked.bench.store, path, rules, float("inf"))
    first, second = [each async for each in results(tmp_path)]
    assert (first.search.id, second.search.id) == (model.id, rules.id)
    row = {"operator": "double", "provenance": "predicted", "device": "d", "evaluations": len(first.order)}
    assert all(each["reached"] for each in rule_rows({**row, "seconds": first.counts.device_ms / 1000}, second))


def test_both_searches_of_an_operator_start_from_the_recorded_seed() -> None:
    options = argparse.Namespace(device="model:sm_90", answers=3)
    model, rules = requests(options, "softmax", COMMITTED["softmax"])
    assert isinstance(model.operator, dict) and model.operator == rules.operator
    assert model.operator["seeds"] == [seed_of(COMMITTED["softmax"])] and model.evaluations == 5
    assert model.llm is not None and rules.llm is None and rules.emitters == RULES


@pytest.mark.parametrize("operator", COMMITTED)
def test_every_recorded_prompt_names_its_parents_and_its_cell(operator: str) -> None:
    search = records.search(axes=tuple(DESCRIPTORS[name].axis for name in DEFAULT_AXES))
    sources = {seed_of(COMMITTED[operator]), *(each["source"] for each in COMMITTED[operator])}
    for each in COMMITTED[operator]:
        parents = parents_of(each)
        assert set(parents) <= sources
        assert len(parents) == {"scratch": 0, "cross": 2}.get(each["strategy"], 1)
        assert (cell_of(each, search) is not None) is (each["strategy"] == "explore")


def test_a_cell_that_the_grid_lacks_is_refused() -> None:
    aimed = line("explore", "far", SEED, "# Cell to fill\n\nNobody holds this cell yet: num_warps: 7.\n")
    with pytest.raises(ValueError, match="not in list"):
        cell_of(aimed, records.search())
