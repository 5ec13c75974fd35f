"""What steering does to a search: pins change what it goes on from, and watchers hear of a new budget."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import NewPin, SearchState
from service.errors import Conflict
from service.evaluation.finalists import FINALISTS, finalists
from service.events import SearchChanged
from service.generation.proposals import Proposer
from service.requests import HintRequest, PinRequest, SearchChange
from service.scheduler.changes import change, hint, pin, require_room
from tests.service import records
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def test_a_pinned_cell_is_gone_on_from_more_often(bench: Workbench) -> None:
    search = await bench.run(await bench.begin(evaluations=12))
    held = await bench.store.elites.list(search.id, records.DEVICE, 1)
    assert len(held) > 2
    elite = held[-1]
    before = await parents(bench, search, range(1000, 1040))
    await bench.store.pins.put(NewPin("pin", search.id, records.DEVICE, elite.cell, None), most=1)
    after = await parents(bench, search, range(2000, 2040))
    assert after[elite.candidate] > 12 and after[elite.candidate] > 1.5 * before[elite.candidate]


async def parents(bench: Workbench, search, ordinals: range) -> Counter[str]:
    """How often each candidate was the parent of proposals."""
    proposer = Proposer(bench.store)
    counted: Counter[str] = Counter()
    for ordinal in ordinals:
        proposed = await proposer.propose(proposer.look(search), records.OPERATOR, ordinal)
        counted.update(proposed.proposal.parents if proposed else ())
    return counted


async def test_watchers_hear_of_a_new_budget(bench: Workbench) -> None:
    search = await bench.begin(evaluations=12)
    events = bench.events.subscribe(search.id)
    await anext(events)
    changed = await change(bench.store, bench.events, search, SearchChange(evaluations=30, priority=8))
    assert (changed.evaluations, changed.priority) == (30, 8)
    heard = await asyncio.wait_for(anext(events), 5)
    assert heard.event == SearchChanged(search=search.id, state="preparing", reason="")


async def test_a_rule_that_comes_while_it_runs_ends_a_search(bench: Workbench) -> None:
    search = await bench.begin(evaluations=1_000)
    for _ in range(6):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
    asked = SearchChange.model_validate({"stop": {"seconds": 1_000, "plateau": 900}})
    changed = await change(bench.store, bench.events, search, asked)
    assert changed.stop == {"seconds": 1_000, "plateau": 900}
    assert (await change(bench.store, bench.events, search, SearchChange(evaluations=900))).stop == changed.stop
    none = await change(bench.store, bench.events, search, SearchChange.model_validate({"stop": {}}))
    assert (none.stop, none.evaluations) == (None, 900)
    await change(bench.store, bench.events, search, SearchChange.model_validate({"stop": {"seconds": 0.001}}))
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE and "(stop rule: 0.001 s)" in ended.reason
    assert (await bench.store.candidates.count(search.id)).candidates < 900


@pytest.mark.parametrize("state", [SearchState.STOPPED, SearchState.FAILED])
async def test_what_is_final_stays_so(bench: Workbench, state: SearchState) -> None:
    stale = await bench.begin(evaluations=12)
    ended = await bench.store.searches.set_state(stale.id, state)
    for tried in (
        change(bench.store, bench.events, ended, SearchChange(evaluations=30)),
        change(bench.store, bench.events, stale, SearchChange(priority=9)),
        pin(bench.store, ended, PinRequest(cell=0), "ada"),
        hint(bench.store, ended, HintRequest(text="wider"), "ada"),
    ):
        with pytest.raises(Conflict, match=state.value):
            await tried
    assert (await bench.store.searches.get(stale.id)).evaluations == 12


async def test_a_done_search_that_is_extended_ends_anew_with_its_finalists(bench: Workbench) -> None:
    done = await bench.run(await bench.begin(evaluations=4))
    with pytest.raises(Conflict, match="used its 4 evaluations"):
        await require_room(bench.store, done)
    with pytest.raises(Conflict, match="done"):
        await pin(bench.store, done, PinRequest(cell=0), "ada")
    examined = len(bench.answers.finals)
    done = await change(bench.store, bench.events, done, SearchChange(evaluations=12))
    await require_room(bench.store, done)
    await bench.evolution.tick()
    await bench.store.searches.set_state(done.id, SearchState.RUNNING)
    again = await bench.run(done)
    assert again.state is SearchState.DONE and (await bench.store.candidates.count(done.id)).evaluated == 12
    best = await bench.store.elites.top(done.id, records.DEVICE, 1, FINALISTS)
    standings = [result.standing for result in (await finalists(bench.store, best)).values()]
    assert standings == ["passed"] * len(best), "the best of the longer search are examined"
    course = await bench.store.views.milestones(done.id, records.DEVICE)
    assert [point.evaluations for point in course] == sorted({point.evaluations for point in course})
    assert len(bench.answers.finals) >= examined
