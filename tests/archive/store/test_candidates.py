"""Candidates from proposal to verdict, each step safe to repeat."""

import asyncio
from dataclasses import replace

import pytest

from archive.errors import RecordConflict, RecordNotFound
from archive.records import SEED_EMITTER, CandidateState, SearchCounts, TrialRecord
from archive.store import Store
from tests.archive.samples import DEVICE, new_candidate, new_variant, offer, stored_candidate, stored_search, traced


@pytest.fixture
async def search(store: Store) -> str:
    return (await stored_search(store)).id


async def test_a_candidate_comes_back_as_it_was_proposed(store: Store, search: str) -> None:
    new = new_candidate(search, parents=("p1", "p2"), source="import torch\n# größer\n")
    added = await store.candidates.add(new)
    assert added is not None
    assert await store.candidates.get(new.id) == added
    assert {**vars(added), **vars(new)} == vars(added)
    assert (added.state, added.outcome, added.objective) == (CandidateState.QUEUED, None, None)


async def test_adding_again_changes_nothing(store: Store, search: str) -> None:
    new = new_candidate(search)
    first = await store.candidates.add(new)
    assert await store.candidates.add(new) == first
    assert await store.candidates.count(search) == SearchCounts(proposals=1, candidates=1, evaluated=0, device_ms=0)
    assert (await store.elites.progress(search, DEVICE, 1)).emitters["tune"]["proposals"] == 1


async def test_an_equal_digest_counts_as_a_proposal_only(store: Store, search: str) -> None:
    await store.candidates.add(new_candidate(search, 0, digest="same"))
    assert await store.candidates.add(new_candidate(search, 1, digest="same")) is None
    assert await store.candidates.count(search) == SearchCounts(proposals=2, candidates=1, evaluated=0, device_ms=0)


async def test_the_same_proposal_under_a_new_id_is_a_duplicate(store: Store, search: str) -> None:
    await store.candidates.add(new_candidate(search, 0, digest="same"))
    assert await store.candidates.add(new_candidate(search, 0, digest="same")) is None
    assert await store.candidates.count(search) == SearchCounts(proposals=1, candidates=1, evaluated=0, device_ms=0)


async def test_searches_do_not_share_digests(store: Store, search: str) -> None:
    other = (await stored_search(store)).id
    assert await store.candidates.add(new_candidate(search, digest="same"))
    assert await store.candidates.add(new_candidate(other, digest="same"))


async def test_an_ordinal_belongs_to_one_candidate(store: Store, search: str) -> None:
    await stored_candidate(store, search, 0)
    with pytest.raises(RecordConflict):
        await store.candidates.add(new_candidate(search, 0))
    assert await store.candidates.count(search) == SearchCounts(proposals=1, candidates=1, evaluated=0, device_ms=0)


async def test_of_equal_proposals_at_once_one_is_stored(store: Store, search: str) -> None:
    proposals = [new_candidate(search, ordinal, digest="same") for ordinal in range(10)]
    added = await asyncio.gather(*(store.candidates.add(new) for new in proposals))
    assert sum(candidate is not None for candidate in added) == 1
    assert await store.candidates.count(search) == SearchCounts(proposals=10, candidates=1, evaluated=0, device_ms=0)


async def test_an_unknown_search_is_refused(store: Store) -> None:
    with pytest.raises(RecordConflict):
        await store.candidates.add(new_candidate("no such search"))
    with pytest.raises(RecordNotFound):
        await store.candidates.count("no such search")


async def test_a_hostile_text_is_stored_all_the_same(store: Store, search: str) -> None:
    id = await stored_candidate(store, search, source="a\0b\ud800")
    await store.candidates.judge(id, "syntax_error", "\0" * 5, 1, None)
    candidate = await store.candidates.get(id)
    assert (candidate.source, candidate.reason) == ("a\ufffdb?", "\ufffd" * 5)


async def test_candidates_are_listed_newest_first_a_page_at_a_time(store: Store, search: str) -> None:
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(5)]
    await stored_candidate(store, (await stored_search(store)).id)
    pages, before = [], None
    while page := await store.candidates.list(search, limit=2, before=before):
        pages.append([candidate.id for candidate in page])
        before = page[-1].id
    assert pages == [[ids[4], ids[3]], [ids[2], ids[1]], [ids[0]]]


async def test_candidates_are_listed_by_outcome(store: Store, search: str) -> None:
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(4)]
    for id, outcome in zip(ids, ["correct", "wrong_result", "correct"], strict=False):
        await store.candidates.judge(id, outcome, "", None, None)
    assert [each.id for each in await store.candidates.list(search, outcome="correct")] == [ids[2], ids[0]]


async def test_unfinished_are_queued_and_traced_in_order(store: Store, search: str) -> None:
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(3)]
    await store.candidates.save_trace(ids[1], traced(new_variant()))
    await store.candidates.judge(ids[0], "syntax_error", "", 3, None)
    assert [candidate.id for candidate in await store.candidates.unfinished(search)] == ids[1:]


async def test_seeds_come_in_their_order(store: Store, search: str) -> None:
    seeds = [await stored_candidate(store, search, ordinal, emitter=SEED_EMITTER) for ordinal in range(2)]
    await stored_candidate(store, search, 2)
    assert [candidate.id for candidate in await store.candidates.seeds(search)] == seeds


async def test_counts_follow_candidates_through_their_life(store: Store, search: str) -> None:
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(3)]
    assert (await store.candidates.count(search)).in_flight == 3
    await store.candidates.save_trace(ids[0], traced(new_variant()))
    assert (await store.candidates.count(search)).in_flight == 3
    await store.candidates.judge(ids[0], "correct", "", None, 1.5)
    await store.candidates.judge(ids[1], "compile_error", "", None, None)
    counts = await store.candidates.count(search)
    assert (counts.proposals, counts.candidates, counts.evaluated, counts.in_flight) == (3, 3, 2, 1)


async def test_the_first_verdict_stays(store: Store, search: str) -> None:
    id = await stored_candidate(store, search)
    assert await store.candidates.judge(id, "correct", "", None, 1.25) is True
    assert await store.candidates.judge(id, "hang", "too late", 3, None) is False
    candidate = await store.candidates.get(id)
    assert (candidate.state, candidate.outcome, candidate.objective) == (CandidateState.JUDGED, "correct", 1.25)
    assert (await store.elites.progress(search, DEVICE, 1)).outcomes == {"correct": 1}


async def test_of_many_verdicts_at_once_one_counts(store: Store, search: str) -> None:
    id = await stored_candidate(store, search)
    first = await asyncio.gather(*(store.candidates.judge(id, "correct", "", None, 1.0) for _ in range(10)))
    assert first.count(True) == 1
    assert (await store.candidates.count(search)).evaluated == 1


async def test_a_verdict_keeps_an_objective_for_each_device(store: Store, search: str) -> None:
    id = await stored_candidate(store, search)
    assert (await store.candidates.get(id)).objectives == {}
    found = {"h200": 1.25, "model:sm_90": 3.5}
    await store.candidates.judge(id, "correct", "", None, 1.25, found)
    candidate = await store.candidates.get(id)
    assert (candidate.objective, candidate.objectives) == (1.25, found)
    (seen,) = (await store.listings.candidates(search)).items
    assert seen.objectives == found
    other = await stored_candidate(store, search, 1)
    with pytest.raises(ValueError, match="finite"):
        await store.candidates.judge(other, "correct", "", None, 1.0, {"h200": float("inf")})


@pytest.mark.parametrize("objective", [float("nan"), float("inf")])
async def test_an_objective_is_finite(store: Store, search: str, objective: float) -> None:
    id = await stored_candidate(store, search)
    with pytest.raises(ValueError, match="finite"):
        await store.candidates.judge(id, "correct", "", None, objective)
    assert (await store.candidates.get(id)).state is CandidateState.QUEUED


async def test_trials_are_an_emitters_judged_proposals_newest_first(store: Store, search: str) -> None:
    ids = [await stored_candidate(store, search, ordinal, note=f"note {ordinal}") for ordinal in range(4)]
    await stored_candidate(store, search, 4, emitter="rewrite")
    await store.candidates.judge(ids[0], "correct", "", None, 1.5)
    await store.candidates.judge(ids[2], "wrong_result", "", None, None)
    expected = [
        TrialRecord(ids[2], 2, "note 2", "wrong_result", None),
        TrialRecord(ids[0], 0, "note 0", "correct", 1.5),
    ]
    assert await store.candidates.trials(search, "tune") == expected
    assert await store.candidates.trials(search, "tune", limit=1) == expected[:1]


async def test_an_equal_trace_is_found_in_any_search(store: Store, search: str) -> None:
    other = (await stored_search(store)).id
    id = await stored_candidate(store, search, trace_key="same")
    assert await store.candidates.find_traced("same") is None
    await store.candidates.save_trace(id, traced(new_variant()))
    found = await store.candidates.find_traced("same")
    assert found is not None and found.id == id
    assert await store.candidates.add(new_candidate(other, trace_key="same"))
    assert await store.candidates.find_traced("same") == found


@pytest.mark.parametrize("outcome", ["worker_lost", "trace_timeout", "trace_memory"])
async def test_a_trace_that_the_machine_spoiled_is_not_found(store: Store, search: str, outcome: str) -> None:
    id = await stored_candidate(store, search, trace_key="same")
    await store.candidates.judge(id, outcome, "", None, None)
    assert await store.candidates.find_traced("same") is None
    again = await stored_candidate(store, search, 1, trace_key="same")
    await store.candidates.judge(again, "compile_error", "", None, None)
    found = await store.candidates.find_traced("same")
    assert found is not None and found.id == again


async def test_parents_are_counted_as_visits_of_their_cells(store: Store, search: str) -> None:
    parent, other = await stored_candidate(store, search, 0), await stored_candidate(store, search, 1)
    proposal = new_candidate(search, 2, parents=(parent, parent, other, "gone"))
    for new in (proposal, proposal, replace(proposal, id="zz", ordinal=3)):
        await store.candidates.add(new)
    for cell, candidate in enumerate((parent, other)):
        await store.elites.offer(offer(search, candidate, cell=cell))
    assert await store.elites.visits(search, DEVICE, 1) == {0: 2, 1: 2}


async def test_an_unknown_candidate_is_not_found(store: Store) -> None:
    with pytest.raises(RecordNotFound):
        await store.candidates.get("x")
    with pytest.raises(RecordNotFound):
        await store.candidates.judge("x", "correct", "", None, 1.0)
    assert await store.candidates.variants("x") == []


async def test_candidates_of_one_emitter(store: Store) -> None:
    search = (await stored_search(store)).id
    await stored_candidate(store, search, 0)
    rewritten = await stored_candidate(store, search, 1, emitter="rewrite")
    assert [each.id for each in await store.candidates.list(search, emitter="rewrite")] == [rewritten]
