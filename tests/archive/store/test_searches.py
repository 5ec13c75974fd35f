"""Searches from preparing to done."""

import asyncio
from datetime import UTC

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import CandidateVerdict, MeasuredBaselines, SearchState
from archive.store import Store
from tests.archive.samples import new_search, offer, stored_candidate, stored_search


async def test_a_search_comes_back_as_it_was_stored(store: Store) -> None:
    await stored_search(store)
    new = new_search(seed=2**40, devices=("model:sm_90", "model:sm_80"))
    created = await store.searches.create(new)
    assert await store.searches.get(new.id) == created
    assert {**vars(created), **vars(new)} == vars(created)
    assert (created.state, created.graphs, created.reason) == (SearchState.PREPARING, (), "")
    assert created.created_at.tzinfo is UTC


async def test_an_id_is_used_once(store: Store) -> None:
    search = await stored_search(store)
    with pytest.raises(RecordConflict):
        await store.searches.create(new_search(id=search.id))


async def test_an_unknown_operator_is_refused(store: Store) -> None:
    with pytest.raises(RecordConflict):
        await store.searches.create(new_search(operator="no such digest"))


async def test_the_newest_searches_are_listed(store: Store) -> None:
    ids = [(await stored_search(store)).id for _ in range(3)]
    assert [search.id for search in await store.searches.list(limit=2)] == [ids[2], ids[1]]


async def test_searches_are_listed_by_state(store: Store) -> None:
    first, second, third = [await stored_search(store) for _ in range(3)]
    await store.searches.set_state(second.id, SearchState.RUNNING)
    await store.searches.set_state(third.id, SearchState.DONE)
    listed = await store.searches.list(states=(SearchState.PREPARING, SearchState.RUNNING))
    assert [search.id for search in listed] == [second.id, first.id]


async def test_a_state_changes_with_its_reason(store: Store) -> None:
    search = await stored_search(store)
    failed = await store.searches.set_state(search.id, SearchState.FAILED, reason="the reference\0does not export")
    assert (failed.state, failed.reason) == (SearchState.FAILED, "the reference\ufffddoes not export")
    assert failed.updated_at > search.updated_at
    assert await store.searches.get(search.id) == failed


async def test_a_state_changes_only_from_where_it_may(store: Store) -> None:
    search = await stored_search(store)
    with pytest.raises(RecordConflict, match="preparing"):
        await store.searches.set_state(search.id, SearchState.DONE, only_from=(SearchState.RUNNING,))
    assert (await store.searches.get(search.id)).state is SearchState.PREPARING
    await store.searches.set_state(
        search.id, SearchState.RUNNING, only_from=(SearchState.PREPARING, SearchState.PAUSED)
    )
    assert (await store.searches.get(search.id)).state is SearchState.RUNNING


async def test_of_many_who_move_a_search_one_succeeds(store: Store) -> None:
    search = await stored_search(store)
    moves = [
        store.searches.set_state(search.id, SearchState.STOPPED, only_from=(SearchState.PREPARING,)) for _ in range(10)
    ]
    results = await asyncio.gather(*moves, return_exceptions=True)
    assert [isinstance(result, RecordConflict) for result in results].count(False) == 1


async def test_graphs_and_budget_are_set(store: Store) -> None:
    search = await stored_search(store)
    graphs = [{"nodes": [{"op": "aten.mul.Tensor", "args": [1.5, None]}]}]
    await store.searches.set_graphs(search.id, graphs)
    changed = await store.searches.change(search.id, evaluations=7)
    assert changed.graphs == tuple(graphs)
    assert changed.evaluations == 7
    changed = await store.searches.change(search.id, priority=9)
    assert (changed.evaluations, changed.priority) == (7, 9)


async def test_an_unknown_search_is_not_found(store: Store) -> None:
    for call in (
        store.searches.get("x"),
        store.searches.set_state("x", SearchState.DONE, only_from=(SearchState.RUNNING,)),
        store.searches.set_graphs("x", []),
        store.searches.change("x", evaluations=1),
    ):
        with pytest.raises(RecordNotFound):
            await call


async def test_a_budget_changes_only_in_the_states_named(store: Store) -> None:
    search = await stored_search(store)
    open_ones = (SearchState.PREPARING, SearchState.RUNNING)
    assert (await store.searches.change(search.id, evaluations=50, only_in=open_ones)).evaluations == 50
    await store.searches.set_state(search.id, SearchState.DONE)
    with pytest.raises(RecordConflict, match="done"):
        await store.searches.change(search.id, priority=7, only_in=open_ones)
    assert (await store.searches.get(search.id)).evaluations == 50


async def test_name_tags_and_notes_change_in_every_state(store: Store) -> None:
    search = await stored_search(store, name="first", tags=("paper", "h100"), notes="as in the paper")
    await store.searches.set_state(search.id, SearchState.DONE)
    renamed = await store.searches.label(search.id, name="second")
    assert (renamed.name, renamed.tags, renamed.notes) == ("second", ("paper", "h100"), "as in the paper")
    emptied = await store.searches.label(search.id, tags=["b", "a", "b"], notes="")
    assert (emptied.name, emptied.tags, emptied.notes) == ("second", ("b", "a"), "")
    assert await store.searches.get(search.id) == emptied
    assert (await store.searches.label(search.id, tags=())).tags == ()
    with pytest.raises(RecordNotFound):
        await store.searches.label("nobody", tags=["a"])


async def test_baselines_turn_the_objectives_of_their_device_once(store: Store) -> None:
    search = await stored_search(store, devices=("h200", "h100"))
    for device in search.devices:
        candidate = await stored_candidate(store, search.id, ordinal=search.devices.index(device))
        await store.candidates.judge(candidate, "correct", "", None, 2.0, {device: 2.0})
        await store.elites.offer(offer(search.id, candidate, 2.0, device=device, low=2.0, mid=2.5, high=3.0))
    worth = MeasuredBaselines(low=0.5, mid=0.6, high=0.7, times_us={"N=1": {"eager": 5.0}})
    assert await store.searches.relate(search.id, "h200", worth)
    assert not await store.searches.relate(search.id, "h200", MeasuredBaselines(low=9.0))
    assert (await store.searches.get(search.id)).baselines == {"h200": worth}
    related, other = [await store.elites.best(search.id, device) for device in search.devices]
    assert related is not None and (related.objective, related.low, related.mid) == (1.0, 1.0, 1.5)
    assert related.high == pytest.approx(2.1)
    assert other is not None and (other.objective, other.mid) == (2.0, 2.5)
    second, first = await store.candidates.list(search.id)
    assert (first.objective, first.objectives) == (1.0, {"h200": 1.0})
    assert second.objectives == {"h100": 2.0}


async def test_an_end_has_a_time_that_later_changes_leave(store: Store) -> None:
    search = await stored_search(store)
    assert (search.ended_at, search.finishing) == (None, False)
    done = await store.searches.set_state(search.id, SearchState.DONE, finishing=True)
    assert done.finishing and done.ended_at is not None and done.ended_at >= search.created_at
    labelled = await store.searches.label(search.id, notes="later")
    assert labelled.updated_at > done.updated_at and labelled.ended_at == done.ended_at
    again = await store.searches.set_state(search.id, SearchState.RUNNING)
    assert (again.ended_at, again.finishing) == (None, False)


async def test_time_counts_before_the_first_verdict_apart_from_the_time_since(store: Store) -> None:
    first, second = [await stored_search(store) for _ in range(2)]
    await store.searches.count_time([first.id, second.id], 400)
    await store.searches.count_time([first.id], 100)
    candidate = await stored_candidate(store, first.id)
    batch = store.batch()
    batch.judge(CandidateVerdict(candidate, "correct", "", None, 1.0, {}))
    await batch.flush()
    await store.searches.count_time([first.id, second.id], 30)
    times = [await store.candidates.count(search.id) for search in (first, second)]
    assert [(counts.starting_ms, counts.running_ms) for counts in times] == [(500, 30), (430, 0)]
