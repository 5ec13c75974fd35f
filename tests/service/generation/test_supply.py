"""Conversations with models beside the tick: they hold places, lose nothing, and end as the archive says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import Exchange, SearchState
from service.llm_gateway import backends
from tests.service import records
from tests.service.asked import FINAL, SEED, Asked
from tests.service.inquiry import endpoint
from tests.service.llm.vendors import reply, vendor
from tests.service.workbench import Answers


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url)
    yield asked
    await asked.close()


def longer(exchange: Exchange) -> str:
    """An answer that makes the kernel a line longer, each time another."""
    return f"Like this:\n\n<<<<<<< SEARCH\n    y = torch.empty_like(x)\n=======\n    n_{exchange.ordinal} = {'1' * exchange.ordinal}\n    y = torch.empty_like(x)\n>>>>>>> REPLACE\n"  # noqa: E501


async def test_a_search_asks_until_its_budget_is_used(asked: Asked) -> None:
    ended = await asked.run(await asked.begin(evaluations=5), longer)
    history = await asked.history(ended)
    assert (ended.state, [item[3] for item in history]) == (SearchState.DONE, ["correct"] * 5)
    assert {item[2] for item in history[1:]} == {"improve"}
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    assert [item.outcome for item in exchanges] == ["candidate"] * 4
    assert {item.candidate for item in exchanges} <= {
        each.id for each in await asked.bench.store.candidates.list(ended.id)
    }


async def test_a_waiting_prompt_holds_a_place_and_never_the_tick(asked: Asked) -> None:
    search = await asked.begin(evaluations=5)
    for _ in range(12):
        began = asyncio.get_running_loop().time()
        search = await asked.step(search)
        assert asyncio.get_running_loop().time() - began < 5
    assert len(await asked.waiting(search)) == 1
    assert (await asked.bench.store.candidates.count(search.id)).in_flight == 0


async def test_every_claim_is_traceable_to_a_report_of_the_search(asked: Asked) -> None:
    search = await asked.begin(evaluations=3)
    ended = await asked.run(search, longer)
    reports = {
        f"{candidate.id}{rest}"
        for candidate in await asked.bench.store.candidates.list(ended.id)
        for rest in (":trace", f":0:{records.DEVICE}:measure")
    }
    for item in await asked.bench.store.attempts.asked(ended.id):
        exchange = await asked.bench.store.exchanges.get(item.id)
        assert exchange.claims and set(exchange.claims.values()) <= reports
        assert all(f"[{mark}]" in exchange.user for mark in exchange.claims)


async def test_an_unusable_answer_counts_with_its_reason(asked: Asked) -> None:
    def say(exchange: Exchange) -> str:
        return "I would use fewer warps." if exchange.ordinal < 3 else longer(exchange)

    ended = await asked.run(await asked.begin(evaluations=2), say)
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    assert [item.outcome for item in exchanges] == ["unusable", "unusable", "candidate"]
    assert exchanges[0].outcome_reason == "no_code: the answer has no code block"


async def test_an_equal_answer_is_a_duplicate(asked: Asked) -> None:
    ended = await asked.run(
        await asked.begin(evaluations=2), lambda item: f"```python\n{SEED}```" if item.ordinal < 2 else longer(item)
    )
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    assert [item.outcome for item in exchanges] == ["duplicate", "candidate"]


async def test_a_template_fans_out_into_several_candidates(asked: Asked) -> None:
    source = SEED.replace("BLOCK=256", "BLOCK=SIZE").replace("import torch\n", "import torch\n\nSIZE = 256\n", 1)
    template = f'```python\n{source}```\n\n```json\n{{"parameters": {{"SIZE": [128, 256, 1024, 20480]}}}}\n```\n'
    ended = await asked.run(await asked.begin(evaluations=4, terms={"strategies": ["tune"]}), lambda item: template)
    history = await asked.history(ended)
    assert [item[2] for item in history][:2] == ["seed 0", "tune: SIZE = 256"]
    assert len(history) == 4 and len({item[1] for item in history}) == 4
    stored = await asked.bench.store.candidates.list(ended.id)
    first = next(item for item in stored if item.note == "tune: SIZE = 256")
    assert {item.parents for item in stored if item.note.startswith("tune") and item != first} == {(first.id,)}


async def test_variations_take_places_one_by_one_and_survive_a_kill(
    tmp_path: Path, redis_url: str, asked: Asked
) -> None:
    source = SEED.replace("BLOCK=256", "BLOCK=SIZE").replace("import torch\n", "import torch\n\nSIZE = 256\n", 1)
    template = f'```python\n{source}```\n\n```json\n{{"parameters": {{"SIZE": [64, 128, 1024, 20480]}}}}\n```\n'
    search = await asked.begin(evaluations=6, terms={"strategies": ["tune"], "calls": 1})
    while (await asked.bench.store.candidates.count(search.id)).candidates < 3:
        search = await asked.step(search)
        await asked.answer(search, lambda item: template)
        assert (await asked.bench.store.candidates.count(search.id)).in_flight <= 1
    restarted = await Asked.open(tmp_path, redis_url)
    ended = await restarted.run(search)
    (exchange,) = await restarted.bench.store.attempts.asked(ended.id)
    notes = [item[2] for item in await restarted.history(ended)]
    await restarted.close()
    assert sorted(notes) == sorted(["seed 0", *(f"tune: SIZE = {size}" for size in (64, 128, 256, 1024, 20480))])
    assert exchange.outcome == "candidate"


async def test_a_failure_is_repaired_a_bounded_number_of_times(asked: Asked) -> None:
    asked.bench.answers = Answers(bundle=lambda source: records.bundle(1) if source == SEED else None)
    ended = await asked.run(await asked.begin(evaluations=6, terms={"strategies": ["repair", "improve"]}), longer)
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    repairs = [item for item in exchanges if item.strategy == "repair"]
    assert repairs and all(item.parents for item in repairs)
    assert all(sum(item.parents == other.parents for other in repairs) <= 2 for item in repairs)
    prompt = (await asked.bench.store.exchanges.get(repairs[0].id)).user
    assert 'verdict "compile_error"' in prompt and "no such name" in prompt and "line 3" in prompt


@pytest.mark.parametrize("strategy", ["improve", "explore", "tune", "agentic", "scratch"])
async def test_what_was_paid_for_is_used_after_a_pause(asked: Asked, strategy: str) -> None:
    search = await asked.begin(evaluations=2, terms={"strategies": [strategy]})
    while not await asked.waiting(search):
        search = await asked.step(search)
    await asked.bench.store.searches.set_state(search.id, SearchState.PAUSED)
    await asked.step(search)
    (exchange,) = await asked.waiting(search)
    await asked.answer(search, lambda item: f"```python\n{SEED}MORE = 1\n```\n")
    await asked.bench.store.searches.set_state(search.id, SearchState.RUNNING)
    ended = await asked.run(search)
    (only,) = await asked.bench.store.attempts.asked(ended.id)
    assert (only.id, only.outcome, only.ordinal) == (exchange.id, "candidate", 1)


async def test_what_was_paid_for_is_used_after_a_kill(tmp_path: Path, redis_url: str, asked: Asked) -> None:
    search = await asked.begin(evaluations=4)
    while not await asked.waiting(search):
        search = await asked.step(search)
    await asked.answer(search, longer)
    restarted = await Asked.open(tmp_path, redis_url)
    ended = await restarted.run(search, longer)
    history = await restarted.history(ended)
    exchanges = await restarted.bench.store.attempts.asked(ended.id)
    await restarted.close()
    assert len(history) == 4 and [item.ordinal for item in exchanges] == [1, 2, 3]


async def test_a_spent_budget_ends_a_search_that_only_asks(asked: Asked) -> None:
    ended = await asked.run(await asked.begin(evaluations=9, terms={"calls": 2}), longer)
    assert ended.state is SearchState.DONE and "the language model budget is used up" in ended.reason
    assert len(await asked.history(ended)) == 3


async def test_a_spent_budget_leaves_a_search_to_its_other_emitters(asked: Asked) -> None:
    ended = await asked.run(await asked.begin(evaluations=9, terms={"calls": 1}, emitters=("llm", "tune")), longer)
    notes = [item[2] for item in await asked.history(ended)]
    assert ended.state is SearchState.DONE and len(notes) == 9 and notes.count("improve") == 1


async def test_without_a_backend_a_search_that_only_asks_ends_with_the_reason(asked: Asked) -> None:
    ended = await asked.run(await asked.begin(evaluations=3, backend="gone"))
    assert ended.state is SearchState.DONE
    assert ended.reason == "no language model answers: no backend takes calls: none of its backends is configured"


async def test_a_disabled_backend_is_named_with_its_reason(asked: Asked) -> None:
    limiter = asked.llm_gateway.backends.get("replay")
    assert limiter is not None
    limiter.disable("the key was refused")
    ended = await asked.run(await asked.begin(evaluations=3, backend="replay"))
    assert ended.state is SearchState.DONE and len(await asked.history(ended)) == 1
    assert "replay: the key was refused" in ended.reason


async def test_a_search_goes_on_without_its_models_and_says_so(asked: Asked) -> None:
    search, said = await asked.begin(evaluations=6, backend="gone", emitters=("llm", "tune")), set[str]()
    while search.state not in FINAL:
        search = await asked.step(search)
        said.add(search.reason)
    assert search.state is SearchState.DONE and len(await asked.history(search)) == 6
    assert any("no language model is asked: no backend takes calls" in reason for reason in said), said


@pytest.mark.parametrize("emitters", [("llm",), ("llm", "tune")])
async def test_a_vendor_that_refuses_every_prompt_is_asked_a_few_times_and_quoted(
    asked: Asked, monkeypatch: pytest.MonkeyPatch, emitters: tuple[str, ...]
) -> None:
    monkeypatch.setattr(backends, "FIRST_REST_S", 0.001)
    async with vendor() as running:
        running.will(reply(400, {"error": {"code": "content_filter", "message": "We do not like kernels."}}))
        (asked.folder / "backends.toml").write_text(endpoint(running.url))
        search, said = await asked.begin(evaluations=40, backend="local", emitters=emitters), list[str]()
        while search.state not in FINAL:
            search = await asked.step(search)
            said += [search.reason] if search.reason not in said else []
        assert len(running.requests) == 5
    assert "the last answer of a language model was of no use: status 400: We do not like kernels." in said
    words = "local: no answer to 5 prompts in a row; the last: status 400: We do not like kernels."
    assert any(words in reason for reason in said)
    assert len(await asked.history(search)) == (1 if emitters == ("llm",) else 40)
    assert (words in search.reason) is (emitters == ("llm",))
    (_, budget) = await asked.bench.store.spending.of_search(search.id)
    assert (budget.backend, budget.calls, budget.usd) == ("local", 5, 0.0)


async def test_a_vendor_in_trouble_is_named_while_a_search_goes_on(asked: Asked) -> None:
    async with vendor() as running:
        running.will(reply(429, {"error": "slow down"}, Retry_After="3000"))
        (asked.folder / "backends.toml").write_text(endpoint(running.url))
        search = await asked.begin(evaluations=3, backend="local", emitters=("llm",))
        for _ in range(40):
            search = await asked.step(search)
        assert search.state is SearchState.RUNNING
        assert search.reason == "no language model answers at the moment: status 429: slow down"


async def test_why_an_answer_was_of_no_use_stands_at_the_search_until_one_is(asked: Asked) -> None:
    def say(exchange: Exchange) -> str:
        return "I would use \x1b[2J fewer warps." if exchange.ordinal == 1 else longer(exchange)

    search, said = await asked.begin(evaluations=3), list[str]()
    while search.state not in FINAL:
        search = await asked.step(search)
        await asked.answer(search, say)
        said += [search.reason] if search.reason not in said else []
    assert said == [
        "",
        "the last answer of a language model was of no use: no_code: the answer has no code block",
    ]
    assert search.reason == ""


async def test_a_search_that_ended_for_lack_of_a_model_can_go_on(asked: Asked) -> None:
    limiter = asked.llm_gateway.backends.get("manual")
    assert limiter is not None
    limiter.disable("its key was refused")
    ended = await asked.step(await asked.run(await asked.begin(evaluations=3)))
    assert "no language model answers" in ended.reason
    asked.llm_gateway.backends.enable("manual")
    await asked.bench.store.searches.set_state(ended.id, SearchState.RUNNING)
    again = await asked.run(ended, longer)
    assert (again.state, again.reason, len(await asked.history(again))) == (SearchState.DONE, "", 3)


async def test_a_conversation_looks_judges_and_hands_in(asked: Asked) -> None:
    def say(exchange: Exchange) -> str:
        calls = ['```json\n{"call": "elites"}\n```', '```json\n{"call": "judge"}\n```\n' + longer(exchange)]
        return calls[exchange.step] if exchange.step < 2 else longer(exchange).replace("n_", "m_")

    ended = await asked.run(await asked.begin(evaluations=3, terms={"strategies": ["agentic"]}), say)
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    assert [(item.step, item.outcome) for item in exchanges] == [(0, "step"), (1, "candidate"), (2, "candidate")]
    shown = (await asked.bench.store.exchanges.get(exchanges[2].id)).user
    assert "asked for the best kernels" in shown and "had a kernel judged" in shown and "n_1 = 1" in shown
    assert [item[2] for item in await asked.history(ended)] == ["seed 0", "agentic", "agentic, answer 2"]


async def test_a_search_never_has_more_candidates_than_its_budget(asked: Asked) -> None:
    def say(exchange: Exchange) -> str:
        call = '```json\n{"call": "judge"}\n```\n' if exchange.step == 0 else ""
        return call + longer(exchange).replace("n_", f"n{exchange.step}_")

    ended = await asked.run(await asked.begin(evaluations=2, terms={"strategies": ["agentic"]}), say)
    exchanges = await asked.bench.store.attempts.asked(ended.id)
    assert len(await asked.history(ended)) == 2
    assert [item.outcome for item in exchanges] == ["candidate", "unusable"]
    assert exchanges[1].outcome_reason.startswith("too_late: ")
