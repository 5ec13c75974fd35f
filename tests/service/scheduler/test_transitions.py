"""Ends of searches: done right after the stop, finished once verdicts, baselines and examinations have come."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import redis

from archive.records import CandidateState, Placement, SearchRecord, SearchState
from service.evaluation.finalists import finalists
from service.evaluation.jobs import is_final
from service.events import EliteWithdrawn, Event
from service.generation import supply
from tests.service import records
from tests.service.measured import DEVICE, elites, history, identity, plant
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench, bundle_of
from workers.protocol import ConfirmJob, FinalJob, Outcome
from workers.queue import JobQueue, LeaseClient

SIZES = (10, 11)
"""Of two seeds, each in a cell of its own."""
DONE = SearchState.DONE


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, *SIZES)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()


async def work(bench: Workbench, wanted: Callable[[JobQueue], bool]) -> int:
    """Answer the jobs of some queues; returns how many."""
    worker = LeaseClient(bench.redis_url, "w", target="sm_90", device=bench.devices[0])
    worker._queues = tuple(filter(wanted, worker._queues))
    answered = 0
    while (lease := await asyncio.to_thread(worker.lease, 0)) is not None:
        worker.report(lease, bench.answers.to(lease.job))
        answered += 1
    worker.depart()
    return answered


async def until_done(bench: Workbench, search: SearchRecord) -> SearchRecord:
    """Run a search without anybody who examines finalists, until it is done and the best are confirmed."""
    for _ in range(60):
        await bench.evolution.tick()
        await work(bench, lambda queue: not queue.kind.startswith("final"))
        search = await bench.store.searches.get(search.id)
        held = await bench.store.provisional.list(search.id, bench.devices[0], search.axes_version)
        if search.state is DONE and not held:
            return search
    raise AssertionError("it is not done")


async def standings(bench: Workbench, search: SearchRecord) -> list[str]:
    """What is known of each elite's examination."""
    held = await bench.store.elites.list(search.id, bench.devices[0], search.axes_version)
    found = await finalists(bench.store, held)
    return [result.standing for result in found.values()]


async def test_a_search_is_done_while_its_finalists_are_unexamined(bench: Workbench) -> None:
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    assert search.finishing and search.ended_at is not None
    assert await standings(bench, search) == ["unexamined"] * len(SIZES)
    for _ in range(3):
        await bench.evolution.tick()
    queued = await bench.dispatcher.outstanding(search.id)
    assert len(queued) == len(SIZES) and all(map(is_final, queued)), "each is requested once, all of them at once"
    finished = await bench.run(search)
    assert (finished.state, finished.finishing, finished.ended_at) == (DONE, False, search.ended_at)
    assert await standings(bench, finished) == ["passed"] * len(SIZES)
    await bench.evolution.tick()
    assert await bench.dispatcher.stats.queues_of(search.id) == []
    assert search.id not in bench.evolution.search_leases.held


async def test_a_finalist_that_fails_after_the_end_loses_its_cell_and_the_best_falls_back(bench: Workbench) -> None:
    wrong = identity(SIZES[1])
    bench.answers.speedup = lambda job: 2.0 if bundle_of(job).identity == wrong else 1.0
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    best = await bench.store.elites.best(search.id, DEVICE)
    assert best is not None and best.bundle == wrong
    bench.answers.final = lambda job: Outcome.OUT_OF_BOUNDS if job.finalist == wrong else Outcome.CORRECT
    finished = await bench.run(search)
    left = await bench.store.elites.best(search.id, DEVICE)
    assert left is not None and left.bundle == identity(SIZES[0])
    assert await elites(bench, finished) == [left]
    assert (wrong, Placement.WITHDRAWN) in [(entry.bundle, entry.placement) for entry in await history(bench, finished)]
    assert await standings(bench, finished) == ["passed"]


@pytest.mark.parametrize("examined", range(4))
@pytest.mark.parametrize("queue_lost", [False, True])
async def test_a_kill_while_finalists_are_examined_loses_and_doubles_nothing(
    bench: Workbench, tmp_path: Path, redis_url: str, examined: int, queue_lost: bool
) -> None:
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    await bench.evolution.tick()
    for _ in range(examined):
        await asyncio.to_thread(bench.work, 1)
        await bench.evolution.tick()
    await asyncio.to_thread(bench.work, 1)  # Its report is delivered to nobody before the kill.
    if queue_lost:
        redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(tmp_path, redis_url)
    restarted.devices, restarted.answers = bench.devices, bench.answers
    finished = await restarted.run(await restarted.store.searches.get(search.id))
    held = await restarted.store.elites.list(search.id, DEVICE, 1)
    results = [result.standing for result in (await finalists(restarted.store, held)).values()]
    found = [await restarted.store.reports.finals_on([elite.candidate]) for elite in held]
    await restarted.close()
    assert (finished.state, finished.finishing) == (DONE, False)
    assert results == ["passed"] * len(SIZES) and [len(reports) for reports in found] == [1] * len(SIZES)
    if not queue_lost:
        jobs = [job.id for job in bench.answers.finals if isinstance(job, FinalJob)]
        assert len(jobs) <= len(SIZES) + 1, "at most the report that was on its way is made again"


async def test_an_examination_is_continued_by_the_next_coordinator_that_takes_everything(
    bench: Workbench, tmp_path: Path, redis_url: str
) -> None:
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    await bench.evolution.stop()
    other = await Workbench.open(tmp_path, redis_url)
    other.devices, other.answers = bench.devices, bench.answers
    await other.evolution.tick()
    assert search.id in other.evolution.search_leases.held
    finished = await other.run(search)
    await other.close()
    assert not finished.finishing


async def test_a_done_search_that_goes_on_is_not_finishing_and_ends_anew(bench: Workbench) -> None:
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    await bench.store.searches.change(search.id, evaluations=len(SIZES) + 2)
    running = await bench.store.searches.set_state(search.id, SearchState.RUNNING)
    assert (running.finishing, running.ended_at) == (False, None)
    finished = await bench.run(running)
    assert (finished.state, finished.finishing) == (DONE, False)
    assert set(await standings(bench, finished)) == {"passed"}


async def test_a_search_that_is_deleted_while_it_finishes_leaves_no_job(bench: Workbench) -> None:
    search = await until_done(bench, await bench.begin(evaluations=len(SIZES)))
    await bench.evolution.tick()
    lessee = LeaseClient(bench.redis_url, "w", target="sm_90", device=DEVICE)
    lease = await asyncio.to_thread(lessee.lease, 10)
    assert lease is not None and lease.job.search == search.id
    await bench.store.retention.delete(search.id)
    lessee.report(lease, bench.answers.to(lease.job))
    await bench.evolution.tick()
    await bench.evolution.tick()
    assert await bench.dispatcher.stats.queues_of(search.id) == []


async def test_after_a_stop_rule_late_candidates_are_waited_for_only_a_while_and_still_count(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "LANDING_S", 0.2)
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench.devices = (records.DEVICE,)
    search = await bench.begin(evaluations=100, stop={"seconds": 60})
    for _ in range(40):
        await bench.evolution.tick()
        search = await bench.store.searches.get(search.id)
        counts = await bench.store.candidates.count(search.id)
        if search.state is SearchState.RUNNING and counts.in_flight:
            break
        await asyncio.to_thread(bench.work)
    before = counts.evaluated
    await bench.store.searches.count_time([search.id], 60_000)
    await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.RUNNING, "they get a while"
    await asyncio.sleep(0.2)
    await bench.evolution.tick()
    search = await bench.store.searches.get(search.id)
    assert (search.state, search.finishing) == (DONE, True)
    finished = await bench.run(search)
    counts = await bench.store.candidates.count(search.id)
    assert (counts.in_flight, counts.candidates) == (0, counts.evaluated) and counts.evaluated > before
    states = {candidate.state for candidate in await bench.store.candidates.list(search.id)}
    assert states == {CandidateState.JUDGED} and "passed" in await standings(bench, finished)


async def test_a_search_without_any_verdict_in_time_is_done_and_over(bench: Workbench) -> None:
    search = await bench.begin(evaluations=9, stop={"seconds": 1})
    await bench.evolution.tick()
    await bench.store.searches.count_time([search.id], 600_000)
    for _ in range(3):
        await bench.evolution.tick()
    ended = await bench.store.searches.get(search.id)
    assert (ended.state, ended.finishing) == (DONE, False)
    assert ended.reason == "it had no verdict after 600 s (stop rule: 1 s from the first verdict)"
    assert await bench.dispatcher.stats.queues_of(search.id) == [], "its jobs have left the queue"


async def test_a_paused_search_does_not_end_by_its_rule(bench: Workbench) -> None:
    search = await bench.begin(evaluations=9, stop={"seconds": 1})
    await bench.store.searches.set_state(search.id, SearchState.PAUSED)
    await bench.store.searches.count_time([search.id], 900_000)
    for _ in range(3):
        await bench.evolution.tick()
    assert (await bench.store.searches.get(search.id)).state is SearchState.PAUSED


FEW = (10, 11, 12, 13)
"""Of four seeds, each in a cell of its own; the first is the reference seed."""


async def until_only_confirms_are_left(bench: Workbench) -> SearchRecord:
    """Run a search until it is done, with only its reference seed confirmed."""
    search = await bench.begin(evaluations=len(FEW))
    allowed = {"trace", "reserved-trace", "measure", "reserved-measure", "confirm"}
    for _ in range(80):
        await bench.evolution.tick()
        if (await bench.store.candidates.count(search.id)).evaluated:
            allowed.discard("confirm")
        await work(bench, lambda queue: queue.kind in allowed)
        search = await bench.store.searches.get(search.id)
        if search.state is DONE:
            await bench.evolution.tick()
            held = await bench.store.provisional.list(search.id, DEVICE, 1)
            assert len(held) == len(FEW) - 1 and search.finishing
            return search
    raise AssertionError("it is not done")


@pytest.fixture
async def few(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    """A workbench with a card, whose seeds lie in a cell each; each is faster than the one before."""
    plant(monkeypatch, *FEW)
    speeds = {identity(size): 1.0 + place / 10 for place, size in enumerate(FEW)}
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    bench.answers.speedup = lambda job: speeds[bundle_of(job).identity]
    yield bench
    await bench.close()


@pytest.mark.parametrize("confirmed", range(3))
@pytest.mark.parametrize("how", ["killed", "queue lost", "handed over"])
async def test_confirms_of_a_done_search_go_on_after_a_restart_and_none_is_made_twice(
    few: Workbench, tmp_path: Path, redis_url: str, confirmed: int, how: str
) -> None:
    search = await until_only_confirms_are_left(few)
    for _ in range(confirmed):
        await asyncio.to_thread(few.work, 1)
        await few.evolution.tick()
    await asyncio.to_thread(few.work, 1)  # Its report is delivered to nobody before the end of the coordinator.
    if how == "queue lost":
        redis.Redis.from_url(redis_url).flushall()
    elif how == "handed over":
        await few.evolution.stop()
    other = await Workbench.open(tmp_path, redis_url)
    other.devices, other.answers = few.devices, few.answers
    finished = await other.run(await other.store.searches.get(search.id))
    held = {elite.bundle: elite.objective for elite in await elites(other, finished)}
    left = await other.store.provisional.list(search.id, DEVICE, 1)
    placed = Counter(entry.placement for entry in await history(other, finished))
    await other.close()
    assert held == {identity(size): pytest.approx(0.98 * (1 + place / 10)) for place, size in enumerate(FEW)}
    assert (left, finished.finishing) == ([], False)
    assert placed == {Placement.PROVISIONAL: len(FEW), Placement.NEW: len(FEW)}
    if how != "queue lost":
        jobs = [job.id for job in few.judged(ConfirmJob)]
        assert len(jobs) == len(set(jobs)) == len(FEW)


@pytest.mark.parametrize("outcome", [Outcome.WRONG_RESULT, Outcome.WORKER_LOST])
async def test_a_confirm_that_fails_after_the_end_withdraws_its_holder(few: Workbench, outcome: Outcome) -> None:
    search = await until_only_confirms_are_left(few)
    before, last = await few.store.provisional.list(search.id, DEVICE, 1), identity(FEW[-1])
    assert before[0].bundle == last, "the fastest"
    few.answers.outcome = lambda job: (
        outcome if isinstance(job, ConfirmJob) and bundle_of(job).identity == last else Outcome.CORRECT
    )
    heard: list[Event] = []
    few.events.route(heard.append)
    finished = await few.run(search)
    assert {elite.bundle for elite in await elites(few, finished)} == {identity(size) for size in FEW[:-1]}
    assert await few.store.provisional.list(search.id, DEVICE, 1) == []
    [event] = [event for event in heard if isinstance(event, EliteWithdrawn)]
    assert event.provisional and event.candidate == before[0].candidate and event.reason.startswith(outcome.value)
    assert [entry.placement for entry in await history(few, finished) if entry.bundle == last] == [
        Placement.PROVISIONAL,
        Placement.WITHDRAWN,
    ]
    verdict = (await few.store.candidates.get(before[0].candidate)).outcome
    assert verdict == (outcome.value if outcome is Outcome.WRONG_RESULT else "correct")
    best = await few.store.elites.best(search.id, DEVICE)
    assert best is not None and best.objective == pytest.approx(0.98 * 1.2), "the best falls back"


async def test_verdicts_after_the_end_are_confirmed_or_stay_provisional_and_say_so(
    few: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supply, "LANDING_S", 0.0)
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    few.answers.speedup = lambda job: 1.0 + int(bundle_of(job).identity[:4], 16) / 65536
    search = await few.begin(evaluations=100, stop={"seconds": 60})
    for _ in range(40):
        await few.evolution.tick()
        search = await few.store.searches.get(search.id)
        if search.state is SearchState.RUNNING and (await few.store.candidates.count(search.id)).in_flight:
            break
        await asyncio.to_thread(few.work)
    late = [each.id for each in await few.store.candidates.unfinished(search.id)]
    await few.store.searches.count_time([search.id], 60_000)
    await few.evolution.tick()
    await few.evolution.tick()
    search = await few.store.searches.get(search.id)
    assert (search.state, search.finishing, bool(late)) == (DONE, True, True)
    finished = await few.run(search)
    assert {(await few.store.candidates.get(id)).outcome for id in late} == {"correct"}
    held = await elites(few, finished)
    left = await few.store.provisional.list(search.id, DEVICE, 1)
    progress = await few.store.elites.progress(search.id, DEVICE, 6)
    assert (progress.provisional, progress.elites) == (len(left), len(held))
    assert {each.candidate for each in [*held, *left]} & set(late), "late ones hold cells"
    assert progress.best == max(each.objective for each in [*held, *left]), "who leads is confirmed"
    assert all(elite.job.partition(":confirm:")[1] for elite in held)
