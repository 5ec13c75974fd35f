"""A batch reads once and writes once, and comes to what the same calls come to one by one."""

import pytest

from archive.errors import ArchiveError, RecordConflict, RecordNotFound
from archive.records import EMPTY_CELL, CandidateState, CandidateVerdict, NewReport, Placement
from archive.store import ReportKey, Store
from tests.archive.samples import (
    DEVICE,
    OPERATOR,
    READINGS,
    new_report,
    new_variant,
    offer,
    stored_candidate,
    stored_search,
    traced,
)


def _about(report: NewReport) -> ReportKey:
    return ReportKey(OPERATOR, report.bundle, DEVICE, 1)


async def test_what_waits_is_read_back_and_then_written_at_once(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    batch, variant = store.batch(), new_variant()
    await batch.save_trace(candidate, traced(variant))
    report = new_report(search, candidate, bundle=variant.bundle)
    await batch.save_report(report)
    batch.offer(offer(search, candidate, 1.5))
    batch.judge(CandidateVerdict(candidate, "correct", "", None, 1.5, {DEVICE: 1.5}))
    assert [each.bundle for each in await batch.variants(candidate)] == [variant.bundle]
    assert await batch.readings(str(variant.bundle)) == (READINGS,)
    assert (await batch.bundle(str(variant.bundle))).document == variant.document
    assert await batch.reports(candidate) == {report.job: report.document}
    assert await batch.measures(_about(report)) == [report.document]
    assert (await store.candidates.get(candidate)).state is CandidateState.QUEUED, "nothing is written before"

    settled = await batch.flush()
    assert settled.evaluated == {candidate} and [placed for _, placed in settled.placements] == [Placement.NEW]
    judged = await store.candidates.get(candidate)
    assert (judged.state, judged.outcome, judged.objective) == (CandidateState.JUDGED, "correct", 1.5)
    assert judged.objectives == {DEVICE: 1.5}
    assert (await store.bundles.get(str(variant.bundle))).readings == (READINGS,)
    assert await store.reports.measures(_about(report)) == [report.document]
    assert (await store.elites.get(search, DEVICE, 1, 0)).objective == 1.5
    progress = await store.elites.progress(search, DEVICE, 12)
    assert progress.emitters == {"tune": {"proposals": 1, "judged": 1, "correct": 1, "promotions": 1}}


async def test_what_was_traced_twice_is_seen_as_soon_as_it_is_kept(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    key, batch = (await store.candidates.get(candidate)).trace_key, store.batch()
    await batch.look_up([candidate], [])
    assert await batch.retrace(key) is None
    await batch.keep_retrace(key, candidate, ["bundle", None])
    await batch.keep_retrace(key, candidate, ["another"])
    seen = await batch.retrace(key)
    assert await store.retraces.find(key) is None
    await batch.flush()
    for repeat in (seen, await batch.retrace(key)):
        assert repeat is not None and (repeat.candidate, repeat.bundles) == (candidate, ("bundle", None))
    assert await batch.retrace("no such key") is None


async def test_the_same_twice_counts_once(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    trace, report, challenge = traced(new_variant()), new_report(search, candidate), offer(search, candidate)
    batches = [store.batch(), store.batch()]
    answers = []
    for batch in batches:
        await batch.save_trace(candidate, trace)
        await batch.save_report(report, device_ms=250)
        batch.offer(challenge)
        batch.judge(CandidateVerdict(candidate, "correct", "", None, 1.0))
        batch.judge(CandidateVerdict(candidate, "wrong_result", "", None, None))
    for batch in batches:
        answers.append(await batch.flush())
    assert [answer.evaluated for answer in answers] == [{candidate}, set()]
    assert [[placed for _, placed in answer.placements] for answer in answers] == [[Placement.NEW]] * 2
    progress = await store.elites.progress(search, DEVICE, 12)
    assert progress.emitters == {"tune": {"proposals": 1, "judged": 1, "correct": 1, "promotions": 1}}
    assert len(await store.elites.history(search, DEVICE)) == 1
    assert await store.reports.of_candidate(candidate) == [report.document]
    counts = await store.candidates.count(search)
    assert (counts.evaluated, counts.device_ms) == (1, 250)


async def test_many_offers_come_to_what_they_come_to_one_by_one(store: Store) -> None:
    figures = [(0, 1.0), (1, 2.0), (0, 0.5), (0, 3.0), (0, 3.0), (1, 2.5), (2, 0.1)]
    courses = []
    for together in (True, False):
        search = (await stored_search(store)).id
        id = await stored_candidate(store, search)
        await store.elites.offer(offer(search, id, 0.7, cell=1))
        offers = [offer(search, id, objective, cell=cell) for cell, objective in figures]
        batch, placed = store.batch(), []
        for each in offers:
            if together:
                batch.offer(each)
            else:
                placed.append(await store.elites.offer(each))
        placed += [placement for _, placement in (await batch.flush()).placements]
        history = [
            (each.cell, each.objective, each.placement, each.revision)
            for each in reversed(await store.elites.history(search, DEVICE))
        ]
        held = [(each.cell, each.objective, each.revision) for each in await store.elites.list(search, DEVICE, 1)]
        courses.append((placed, history, held, await store.elites.progress(search, DEVICE, 12)))
    assert courses[0] == courses[1]
    assert courses[0][0][:4] == [Placement.NEW, Placement.IMPROVED, Placement.REJECTED, Placement.IMPROVED]


async def test_who_will_hold_a_cell_is_known_before_the_flush(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    await store.elites.offer(offer(search, candidate, 1.5))
    batch, cell = store.batch(), (search, DEVICE, 1)
    assert [await batch.objective(*cell, number) for number in (0, 1)] == [1.5, None]
    batch.offer(offer(search, candidate, 0.5, cell=1))
    batch.offer(offer(search, candidate, 2.5))
    assert [await batch.objective(*cell, number) for number in (0, 1)] == [2.5, 0.5]


async def test_a_batch_that_fails_writes_nothing_and_is_empty(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    batch = store.batch()
    batch.judge(CandidateVerdict(candidate, "correct", "", None, 1.0))
    await batch.save_report(new_report(search, "nobody"))
    with pytest.raises(RecordConflict):
        await batch.flush()
    assert batch.waiting == 0 and (await store.candidates.get(candidate)).state is CandidateState.QUEUED
    assert await batch.flush() == await store.batch().flush()


async def test_a_number_that_no_database_holds_is_an_error_of_the_archive(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    batch = store.batch()
    batch.judge(CandidateVerdict(candidate, "compile_error", "", 2**70, None))
    with pytest.raises(ArchiveError):
        await batch.flush()
    assert (await store.candidates.get(candidate)).state is CandidateState.QUEUED


async def test_what_is_not_there_is_said(store: Store) -> None:
    batch = store.batch()
    with pytest.raises(RecordNotFound, match="candidate"):
        await batch.candidate("nobody")
    with pytest.raises(RecordNotFound, match="bundle"):
        await batch.readings("b" * 64)
    with pytest.raises(RecordNotFound, match="bundle"):
        await batch.bundle("b" * 64)
    assert await batch.unverified_trace("nobody") is None and await batch.variants("nobody") == []


async def test_offers_and_verdicts_must_be_finite_and_confirms_are_decided_elsewhere(store: Store) -> None:
    batch = store.batch()
    with pytest.raises(ValueError, match="finite"):
        batch.offer(offer("s", "c", float("nan")))
    with pytest.raises(ValueError, match="finite"):
        batch.judge(CandidateVerdict("c", "correct", "", None, 1.0, {DEVICE: float("inf")}))
    with pytest.raises(ValueError, match="at once"):
        batch.offer(offer("s", "c", incumbent=EMPTY_CELL))
    assert batch.waiting == 0


async def test_a_lost_workers_report_is_not_used_again_and_a_doubt_is_seen(store: Store) -> None:
    search = (await stored_search(store)).id
    candidate = await stored_candidate(store, search)
    await store.remote_workers.mark_unverified(candidate, "host")
    batch, lost = store.batch(), new_report(search, candidate, outcome="worker_lost")
    await batch.save_report(lost)
    assert await batch.measures(_about(lost)) == []
    doubt = await batch.unverified_trace(candidate)
    assert doubt is not None and doubt.host == "host"
