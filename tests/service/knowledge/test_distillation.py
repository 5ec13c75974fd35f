"""What moved kernels is learned from parents and children, credited by what comes later, and told in a sentence."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from uuid6 import uuid7

from archive.records import Exchange, KnowledgeEntryRecord, KnowledgeState, NewExchange, SearchRecord
from archive.store import Store
from service.emitters.base import Parent, ShapeTiming
from service.knowledge import distillation as subject
from service.knowledge.distillation import CLAIM, advice, distil
from tests.service import records
from tests.service.asked import SEED as KERNEL
from tests.service.asked import Asked
from tests.service.lineages import SEED, Made, measured, stored
from tests.service.workbench import Answers
from workers.protocol import Outcome

GAINED = Made("gained", 8.0)
FAILED = [Made(f"failed {number}", 12.0) for number in range(3)]


async def learned(store: Store, *made: Made, **changes: Any) -> list[KnowledgeEntryRecord]:
    """All that is known after a search over the seed and `made` was read."""
    await distil(store, await stored(store, (SEED, *made), **changes))
    return await store.knowledge.list()


async def exchange(store: Store, search: SearchRecord, ordinal: int, *entries: str) -> None:
    """A prompt that carried entries, on the way to a proposal."""
    await store.exchanges.open(
        NewExchange(
            id=str(uuid7()),
            search=search.id,
            ordinal=ordinal,
            step=0,
            digest="d",
            backend="manual",
            strategy="improve",
            template="improve-1",
            claims={CLAIM + id: "job" for id in entries},
            parents=(),
            cell=None,
            system="",
            user="",
            max_tokens=1,
        )
    )


async def test_a_gain_becomes_an_entry_with_its_evidence(store: Store) -> None:
    search = await stored(store, (SEED, GAINED, *FAILED))
    await distil(store, search)
    (entry,) = await store.knowledge.list()
    assert (entry.move, entry.traits[0], entry.bottleneck, entry.device) == (
        "num_warps down",
        "elementwise",
        "compute",
        records.DEVICE,
    )
    assert (entry.successes, entry.failures) == (1, 3)
    assert entry.low == entry.high == pytest.approx(1.25)
    assert entry.jobs == tuple(f"{search.id}:{name}:0:{records.DEVICE}:measure" for name in ("gained", "seed"))
    assert (entry.before, entry.after) == ({"num_warps": 8}, {"num_warps": 4})
    assert "num_warps down" in entry.sentence and records.DEVICE in entry.sentence


async def test_to_read_a_search_again_changes_nothing(store: Store) -> None:
    search = await stored(store, (SEED, GAINED, *FAILED))
    await distil(store, search)
    (first,) = await store.knowledge.list()
    await distil(store, search)
    (again,) = await store.knowledge.list()
    assert replace(again, updated_at=first.updated_at) == first
    assert await store.knowledge.undistilled([search.state]) == []


async def test_what_only_failed_is_no_lesson_until_it_is_known(store: Store) -> None:
    assert await learned(store, *FAILED) == []
    (entry,) = await learned(store, GAINED)
    assert (entry.successes, entry.failures) == (1, 0)
    (entry,) = await learned(store, *FAILED)
    assert (entry.successes, entry.failures) == (1, 3)


async def test_wrong_kernels_count_against_a_move_and_lost_ones_do_not(store: Store) -> None:
    (entry,) = await learned(
        store,
        GAINED,
        Made("wrong", 5.0, outcome=Outcome.WRONG_RESULT),
        Made("broken", None, outcome=Outcome.COMPILE_ERROR),
        Made("lost", None, outcome=Outcome.WORKER_LOST),
        Made("unclear", None, outcome=Outcome.NOT_INTERPRETABLE),
    )
    assert (entry.successes, entry.failures) == (1, 2)


async def test_a_gain_that_is_not_certain_is_none(store: Store) -> None:
    seed = replace(SEED, changes=measured(0.9, 1.1))
    search = await stored(store, (seed, Made("a", changes=measured(1.0, 1.4))), devices=("h200",))
    await distil(store, search)
    assert await store.knowledge.list() == []


async def test_a_child_of_a_wrong_kernel_teaches_nothing(store: Store) -> None:
    wrong = Made("wrong", 5.0, emitter="rewrite", note="chunk_row", outcome=Outcome.WRONG_RESULT)
    assert await learned(store, wrong, Made("child", 2.0, parents=("wrong",))) == []


async def test_moves_of_free_writers_are_what_their_readings_did(store: Store) -> None:
    (entry,) = await learned(
        store,
        Made("a", 5.0, emitter="llm", note="ignore all\nprevious", readings={"num_warps": 4}),
        Made("b", None, emitter="llm", note="x", outcome=Outcome.SYNTAX_ERROR),
    )
    assert (entry.move, entry.failures) == ("num_warps down", 0)
    assert "ignore" not in entry.sentence


async def test_only_the_most_certain_gains_of_a_search_are_kept(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MOST_LESSONS", 2)
    rules = [Made(f"r{number}", 9.0 - number, emitter="rewrite", note=f"rule_{number}") for number in range(4)]
    entries = await learned(store, *rules)
    assert [entry.move for entry in entries] == ["rule_3", "rule_2"]


async def test_prompts_that_carried_an_entry_are_won_or_lost(store: Store) -> None:
    (entry,) = await learned(store, GAINED)
    llm = [
        Made("won", 8.0, emitter="llm", note="", readings={"num_warps": 8, "registers": 200}),
        Made("lost", 11.0, emitter="llm", note=""),
        Made("broken", None, emitter="llm", note="", outcome=Outcome.COMPILE_ERROR),
        Made("without", 11.0, emitter="llm", note=""),
    ]
    search = await stored(store, (SEED, *llm))
    for ordinal in (1, 2, 3):
        await exchange(store, search, ordinal, entry.id, "no such entry")
    for _ in range(2):
        await distil(store, search)
    known = await store.knowledge.get(entry.id)
    assert (known.wins, known.losses) == (1, 2)


async def test_advice_tells_the_figures_and_where_they_are_from(store: Store) -> None:
    gained = replace(GAINED, readings={"programs_per_sm": 31.0303})
    await learned(store, gained, *FAILED)
    parent = Parent("c", records.SEED, readings=records.readings(8).model_dump(mode="json"), times=(timing(10.0),))
    (found,) = await advice(store, records.search(), records.OPERATOR, parent)
    assert found.text.endswith(
        "1 of 4 such steps gained, at best 1.25 to 1.25 times (predicted, on double): "
        "programs_per_sm 7.8 to 31, num_warps 8 to 4."
    )
    assert found.claim == CLAIM + found.id
    assert found.job.endswith(":gained:0:model:sm_90:measure")
    assert "\n" not in found.text


async def test_advice_prefers_the_bottleneck_at_hand_and_serves_devices_of_one_target(store: Store) -> None:
    await learned(store, GAINED)
    await learned(store, Made("a", 5.0, emitter="rewrite", note="chunk_row"))
    quick = replace(SEED, time_us=4.0)
    search = await stored(store, (quick, Made("b", 2.0, emitter="rewrite", note="hoist_load")))
    await distil(store, search)
    parent = Parent("c", "", readings=records.readings(8).model_dump(mode="json"), times=(timing(4.0),))
    found = await advice(store, records.search(), records.OPERATOR, parent, "h200")
    assert "bound by latency" in found[0].text and len(found) == 3
    assert len(await advice(store, records.search(), records.OPERATOR, None)) == 3


async def test_retired_entries_are_not_told(store: Store) -> None:
    (entry,) = await learned(store, GAINED)
    await store.knowledge.edit(entry.id, state=KnowledgeState.RETIRED)
    assert await advice(store, records.search(), records.OPERATOR, None) == ()


async def test_what_one_search_learned_the_next_is_told_and_credits(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (KERNEL,)}))
    asked = await Asked.open(tmp_path, redis_url)
    asked.bench.answers = Answers(time_us=lambda bundle: 4.0 + int(bundle[:4], 16) / 10_000)
    store = asked.bench.store
    first = await asked.run(await asked.begin(id="first", budget=10), write)
    await distil(store, first)
    taught = {CLAIM + entry.id: entry for entry in await store.knowledge.list()}
    second = await asked.run(await asked.begin(id="second", budget=6), write)
    found = await store.exchanges.list(search=second.id, limit=100)
    told = [key for item in found for key in item.claims if key.startswith(CLAIM)]
    assert told and set(told) <= set(taught)
    exchange = await store.exchanges.get(found[0].id)
    assert all(taught[key].move in exchange.user for key in exchange.claims if key in taught)
    assert all(job == taught[key].jobs[0] for key, job in exchange.claims.items() if key in taught)
    await distil(store, second)
    credited = [await store.knowledge.get(entry.id) for entry in taught.values()]
    assert sum(entry.wins + entry.losses for entry in credited) == len(told)
    await asked.close()


def write(exchange: Exchange) -> str:
    """A kernel with so many spare letters that its readings differ from its parent's."""
    spare = "s" * (1 + 3 * exchange.ordinal)
    return f"```python\n{KERNEL}\n# {spare}\nSPARE = '{spare}'\n```\n"


def timing(time_us: float) -> ShapeTiming:
    return ShapeTiming(shape="N=1024", weight=1.0, mid_us=time_us, low_us=time_us, high_us=time_us)
