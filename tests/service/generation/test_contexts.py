"""What a model is told of a search: facts of the archive, each with its report."""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from dataclasses import fields, replace
from pathlib import Path

import pytest

from archive.records import Exchange, NewHint, SearchState
from service.emitters.base import Parent, ProposalContext
from service.emitters.llm.strategies import STRATEGIES
from service.generation.contexts import (
    REPAIRS,
    ContextBuilder,
    DistinctPrompts,
    ResumedLlmClient,
    by_rank,
    cause_of,
    in_words,
)
from service.llm import Completion, LlmAnswer, LlmPrompt, Purpose, SamePromptOpen
from tests.service import records
from tests.service.asked import SEED, Asked
from tests.service.generation.test_supply import longer
from tests.service.inquiry import purpose
from tests.service.workbench import Answers


class Silent:
    """Keeps what it is asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[LlmPrompt, Purpose, str | None]] = []

    async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
        self.asked.append((prompt, purpose, backend))
        return LlmAnswer("e", backend or "", Completion("", "", 0, 0, None))

    def available(self, backends: Sequence[str]) -> tuple[str, ...]:
        return tuple(backends)


@pytest.fixture(autouse=True)
def seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (SEED,)}))


@pytest.fixture
async def asked(tmp_path: Path, redis_url: str) -> AsyncIterator[Asked]:
    asked = await Asked.open(tmp_path, redis_url)
    yield asked
    await asked.close()


async def written(asked: Asked, search: str, ordinal: int = 50, begun: Sequence[Exchange] = ()) -> ProposalContext:
    found = await asked.bench.store.searches.get(search)
    return await ContextBuilder(asked.bench.store).write(found, records.OPERATOR, ordinal, begun, Silent(), None)  # type: ignore[arg-type]


async def test_a_brief_knows_elites_neighbours_and_an_empty_cell(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=5, terms={"strategies": []}), longer)
    context = await written(asked, search.id)
    llm, parent = context.llm, context.parents[0]
    assert llm is not None and llm.strategies == STRATEGIES and llm.backends == ("manual",)
    assert (
        parent.source.startswith("import torch") and parent.outcome == "correct" and parent.readings["registers"] == 32
    )
    assert (
        parent.job == f"{parent.candidate}:0:{records.DEVICE}:measure" and parent.traced == f"{parent.candidate}:trace"
    )
    assert [time.shape for time in parent.times] == ["N=1024", "N=4096"] and parent.times[0].floor_us == pytest.approx(
        8192 / 4.8e6
    )
    held = {elite.cell for elite in await asked.bench.store.elites.list(search.id, records.DEVICE, 1)}
    assert llm.cell is not None and llm.cell not in held and llm.place == in_words(search, llm.cell)
    assert {kernel.cell for kernel in llm.neighbours} <= held
    assert sum(record.calls for record in llm.records) >= 4


async def test_equal_archives_give_equal_briefs(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=4), longer)
    first, again = await written(asked, search.id), await written(asked, search.id)
    assert first.parents == again.parents and first.llm is not None and again.llm is not None
    assert (first.llm.cell, first.llm.records, first.rng.random()) == (
        again.llm.cell,
        again.llm.records,
        again.rng.random(),
    )


async def test_failures_are_told_and_one_may_be_repaired(asked: Asked) -> None:
    asked.bench.answers = Answers(bundle=lambda source: records.bundle(1) if source == SEED else None)
    search = await asked.run(await asked.begin(evaluations=3), longer)
    llm = (await written(asked, search.id)).llm
    assert llm is not None and [item.outcome for item in llm.failures] == ["compile_error"]
    assert llm.failures[0].times_failed == 2, "one cause is told once"
    assert (
        llm.broken is not None
        and llm.broken.candidate == llm.failures[0].candidate
        and llm.broken.reason == "no such name"
        and llm.broken.line == 3
    )


async def test_a_failure_that_was_repaired_often_enough_is_left(asked: Asked) -> None:
    asked.bench.answers = Answers(bundle=lambda source: records.bundle(1) if source == SEED else None)
    search = await asked.run(await asked.begin(evaluations=12, terms={"strategies": ["repair", "improve"]}), longer)
    exchanges = await asked.bench.store.attempts.asked(search.id)
    made_by = {item.candidate: item for item in exchanges if item.strategy == "repair"}
    for item in made_by.values():
        depth, step = 1, item
        while step.parents[0] in made_by:
            depth, step = depth + 1, made_by[step.parents[0]]
        assert depth <= REPAIRS
    assert made_by


async def test_hints_are_told(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=2), longer)
    await asked.bench.store.hints.put(NewHint("h", search.id, "One pass is enough."), most=9)
    llm = (await written(asked, search.id)).llm
    assert llm is not None and llm.hints == ("One pass is enough.",)


async def test_what_was_begun_is_briefed_as_it_was(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=3), longer)
    begun = await asked.bench.store.exchanges.get((await asked.bench.store.attempts.asked(search.id))[1].id)
    context = await written(asked, search.id, begun.ordinal, [begun])
    assert [parent.candidate for parent in context.parents] == list(begun.parents)
    assert context.llm is not None and context.llm.begun == ("manual", "improve") and search.state is SearchState.DONE


async def test_a_step_that_was_asked_is_asked_word_for_word(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=2), longer)
    begun = await asked.bench.store.exchanges.get((await asked.bench.store.attempts.asked(search.id))[0].id)
    silent = Silent()
    ask = ResumedLlmClient(silent, [begun])
    purpose = Purpose("other", 9, 0, "scratch", "t", {}, (), None)
    await ask(LlmPrompt("new", "new"), purpose, "elsewhere")
    await ask(LlmPrompt("new", "new"), Purpose("other", 9, 1, "scratch", "t", {}, (), None), "elsewhere")
    (first, given, backend), (second, _, other) = silent.asked
    assert (first.user, given.ordinal, backend) == (begun.user, begun.ordinal, "manual")
    assert (second.user, other) == ("new", "elsewhere")
    assert {item.name for item in fields(Purpose)} <= {item.name for item in fields(Exchange)}


async def test_the_best_is_always_told_and_parents_come_by_rank(asked: Asked) -> None:
    search = await asked.run(await asked.begin(evaluations=4), longer)
    llm = (await written(asked, search.id)).llm
    assert llm is not None and llm.best is not None
    elites = await asked.bench.store.elites.list(search.id, records.DEVICE, search.axes_version)
    assert llm.best.objective == max(elite.objective for elite in elites)
    assert llm.best.times and llm.best.limiter


async def test_a_models_own_line_is_kept_with_its_result(asked: Asked) -> None:
    search = await asked.begin(evaluations=2)
    ended = await asked.run(search, lambda item: f"Change: one line more, to see.\n\n{longer(item)}")
    (item,) = await asked.bench.store.attempts.asked(ended.id)
    assert item.change == "one line more, to see."
    (candidate,) = [each for each in await asked.bench.store.candidates.list(ended.id) if each.exchange is not None]
    assert (candidate.exchange, candidate.id) == (item.id, item.candidate)
    llm = (await written(asked, ended.id)).llm
    assert llm is not None
    (tried,) = llm.changes
    assert (tried.change, tried.outcome, tried.candidate) == (item.change, "correct", candidate.id)


async def test_no_prompt_is_open_twice() -> None:
    release, opened = asyncio.Event(), dict[str, int]()

    class Slow:
        async def __call__(self, prompt: LlmPrompt, purpose: Purpose, backend: str | None = None) -> LlmAnswer:
            await release.wait()
            return LlmAnswer("id", "b", Completion("", "", 0, 0, None))

        def available(self, backends: Sequence[str]) -> tuple[str, ...]:
            return tuple(backends)

        def require_open(self, backends: Sequence[str]) -> None:
            assert backends

    client, prompt = DistinctPrompts(Slow(), opened), LlmPrompt("s", "u")
    first = asyncio.create_task(client(prompt, purpose("s", 1)))
    await asyncio.sleep(0)
    with pytest.raises(SamePromptOpen):
        await client(prompt, purpose("s", 2))
    other = asyncio.create_task(client(LlmPrompt("s", "v"), purpose("s", 2)))
    release.set()
    await asyncio.gather(first, other)
    assert opened == {}
    await client(prompt, purpose("s", 2))


def test_better_elites_are_chosen_more_often_and_pairs_differ() -> None:
    elites = [
        replace(records.elite(), candidate=str(number), cell=number, objective=9.0 - number) for number in range(6)
    ]
    counts: Counter[str] = Counter()
    for draw in range(400):
        first, second = by_rank(elites, random.Random(draw))
        assert first != second
        counts[first.candidate] += 1
    assert [counts[str(number)] for number in range(6)] == sorted(counts.values(), reverse=True)
    pinned = [by_rank(elites, random.Random(draw), elites[5:])[0].candidate for draw in range(400)]
    assert 150 < pinned.count("5") < 300
    assert by_rank([], random.Random(0)) == ()
    assert by_rank(elites[:1], random.Random(0)) == (elites[0],)


def test_causes_are_equal_but_for_names_and_numbers() -> None:
    one = Parent("a", "", outcome="compile_error", reason="out of resource: shared memory, Required: 262272")
    two = replace(one, candidate="b", reason="out of resource: shared memory, Required: 300032")
    assert cause_of(one) == cause_of(two) != cause_of(replace(one, outcome="wrong_result"))
