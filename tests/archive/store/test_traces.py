"""A trace is stored whole or not at all, and once."""

import asyncio

import pytest

from archive.errors import RecordConflict
from archive.records import CandidateState, VariantRecord
from archive.store import Store
from tests.archive.samples import READINGS, new_variant, stored_candidate, stored_search, traced


@pytest.fixture
async def candidate(store: Store) -> str:
    return await stored_candidate(store, (await stored_search(store)).id)


async def test_variants_and_bundles_are_stored(store: Store, candidate: str) -> None:
    stopped = new_variant(1, bundle=None, document=None, readings=None, outcome="compile_error", reason="no", line=9)
    await store.candidates.save_trace(candidate, traced(new_variant(0), stopped))
    bundle = "0" * 64
    assert await store.candidates.variants(candidate) == [
        VariantRecord(candidate, 0, {"BLOCK": 1024}, bundle, None, "", None),
        VariantRecord(candidate, 1, {"BLOCK": 1024}, None, "compile_error", "no", 9),
    ]
    assert (await store.bundles.get(bundle)).readings == (READINGS,)
    stored = await store.candidates.get(candidate)
    assert (stored.state, stored.outcome, stored.stages_s) == (CandidateState.TRACED, None, {"compile": 0.25})


async def test_without_a_bundle_a_candidate_waits_for_its_verdict(store: Store, candidate: str) -> None:
    await store.candidates.save_trace(candidate, traced(outcome="syntax_error", reason="bad", line=2))
    stored = await store.candidates.get(candidate)
    assert (stored.state, stored.outcome, stored.reason, stored.line) == (
        CandidateState.QUEUED,
        "syntax_error",
        "bad",
        2,
    )
    assert await store.candidates.judge(candidate, "syntax_error", "bad", 2, None)


async def test_saving_again_changes_nothing(store: Store, candidate: str) -> None:
    trace = traced(new_variant(0))
    await store.candidates.save_trace(candidate, trace)
    await store.candidates.judge(candidate, "correct", "", None, 1.5)
    judged = await store.candidates.get(candidate)
    await store.candidates.save_trace(candidate, trace)
    assert await store.candidates.get(candidate) == judged
    assert len(await store.candidates.variants(candidate)) == 1


async def test_an_equal_candidate_names_bundles_that_are_known(store: Store, candidate: str) -> None:
    await store.candidates.save_trace(candidate, traced(new_variant(0)))
    twin = await stored_candidate(store, (await store.candidates.get(candidate)).search, 1)
    await store.candidates.save_trace(twin, traced(new_variant(0, document=None, readings=None)))
    assert (await store.candidates.get(twin)).state is CandidateState.TRACED
    assert (await store.bundles.get("0" * 64)).document == '{"plans": []}'


async def test_a_trace_with_an_unknown_bundle_leaves_nothing_behind(store: Store, candidate: str) -> None:
    unknown = new_variant(1, bundle="f" * 64, document=None, readings=None)
    with pytest.raises(RecordConflict):
        await store.candidates.save_trace(candidate, traced(new_variant(0), unknown))
    assert await store.candidates.variants(candidate) == []
    assert (await store.candidates.get(candidate)).state is CandidateState.QUEUED


async def test_traces_with_shared_bundles_at_once(store: Store, candidate: str) -> None:
    search = (await store.candidates.get(candidate)).search
    ids = [await stored_candidate(store, search, ordinal) for ordinal in range(1, 9)]
    orders = ([0, 1, 2], [2, 1, 0])
    traces = [
        traced(*(new_variant(place, bundle=f"{index:064x}") for place, index in enumerate(orders[turn % 2])))
        for turn, _ in enumerate(ids)
    ]
    await asyncio.gather(*(store.candidates.save_trace(*each) for each in zip(ids, traces, strict=True)))
    assert [len(await store.candidates.variants(id)) for id in ids] == [3] * len(ids)
