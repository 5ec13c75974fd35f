"""A search runs from its reference to its last evaluation, and survives losing everything but the archive."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis
from sqlalchemy import event

from archive.records import CandidateState, SearchState
from service.evaluation.jobs import measure_id, retrace_id
from service.evaluation.reports import reports_on
from service.scheduler import leases
from tests.service import records
from tests.service.measured import DEVICE, elites, identity, outcomes, plant, seed
from tests.service.records import TUNABLE
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import MeasureJob, Outcome, TraceJob


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str) -> AsyncIterator[Workbench]:
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


@pytest.fixture(autouse=True)
def tunable_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))


async def test_a_search_runs_to_its_budget(bench: Workbench) -> None:
    ended = await bench.run(await bench.begin(evaluations=8))
    progress = await bench.store.elites.progress(ended.id, records.DEVICE, 6)
    assert (ended.state, progress.evaluated, progress.correct) == (SearchState.DONE, 8, 8)
    assert progress.elites > 1 and progress.best == pytest.approx(1.0)


async def test_an_equal_bundle_is_judged_once_and_counts_for_every_candidate(bench: Workbench) -> None:
    bench.answers = Answers(bundle=lambda source: records.bundle(7))
    ended = await bench.run(await bench.begin(evaluations=6))
    candidates, counts = await bench.store.candidates.list(ended.id), await bench.store.candidates.count(ended.id)
    assert {candidate.outcome for candidate in candidates} == {"correct"}
    assert sum(isinstance(job, MeasureJob) for job in bench.answers.seen) == 1
    assert (counts.evaluated, counts.equal_plans) == (1, len(candidates) - 1), "one evaluation, however often"
    assert 6 <= counts.equal_plans < 6 + 4, "as many as evaluations, and those in flight"
    assert ended.reason == f"nothing new to propose: {counts.equal_plans} candidates had plans with a verdict"


async def test_equal_plans_use_no_evaluation(bench: Workbench) -> None:
    bundles = {True: records.bundle(7)}
    bench.answers = Answers(bundle=lambda source: bundles.get("num_warps=4" in source) or records.bundle_from(source))
    ended = await bench.run(await bench.begin(evaluations=12))
    candidates, counts = await bench.store.candidates.list(ended.id), await bench.store.candidates.count(ended.id)
    equal = sum("num_warps=4" in candidate.source for candidate in candidates) - 1
    assert (counts.evaluated, counts.equal_plans, ended.reason) == (12, equal, "") and equal > 0
    assert (await bench.store.elites.progress(ended.id, records.DEVICE, 6)).evaluated == 12


async def test_an_equal_source_is_not_traced_again_in_another_search(bench: Workbench) -> None:
    await bench.run(await bench.begin(evaluations=5))
    again = await bench.run(await bench.begin(evaluations=5, id="search-2"))
    assert again.state is SearchState.DONE
    jobs = [job for job in bench.answers.seen if isinstance(job, TraceJob) and job.source]
    for repeats in (False, True):
        sources = [job.source for job in jobs if (job.id == retrace_id(job.candidate or "")) is repeats]
        assert len(sources) == len(set(sources)) and (repeats or len(sources) >= 5)
    measured = [job.bundle.identity for job in bench.answers.seen if isinstance(job, MeasureJob)]
    assert len(measured) == len(set(measured))


async def test_failures_are_verdicts_and_the_search_goes_on(bench: Workbench) -> None:
    bench.answers = Answers(bundle=lambda source: records.bundle(1) if source == TUNABLE else None)
    ended = await bench.run(await bench.begin(evaluations=4))
    failed = [item for item in await bench.store.candidates.list(ended.id) if item.outcome != "correct"]
    assert ended.state is SearchState.DONE and len(failed) == 3
    assert {(item.outcome, item.reason, item.line) for item in failed} == {("compile_error", "no such name", 3)}


async def test_a_search_whose_seed_is_not_correct_fails_with_the_reason(bench: Workbench) -> None:
    bench.answers = Answers(bundle=lambda source: None)
    ended = await bench.run(await bench.begin(evaluations=4))
    assert ended.state is SearchState.FAILED
    assert "compile_error" in ended.reason and "no such name" in ended.reason


async def test_a_faster_candidate_takes_the_cell(bench: Workbench) -> None:
    seed = records.bundle_from(TUNABLE).identity
    bench.answers = Answers(time_us=lambda bundle: 10.0 if bundle == seed else 4.0)
    ended = await bench.run(await bench.begin(evaluations=8))
    best = await bench.store.elites.best(ended.id, records.DEVICE)
    assert best is not None and best.objective == pytest.approx(2.5) and best.bundle != seed


@pytest.mark.parametrize("kill_after", range(1, 9))
async def test_a_killed_loop_goes_on_and_counts_nothing_twice(
    tmp_path: Path, redis_url: str, kill_after: int, bench: Workbench
) -> None:
    search = await bench.begin(evaluations=7)
    for _ in range(kill_after):
        await bench.evolution.tick()
        bench.work(most=3)
    if kill_after % 2:
        redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(tmp_path, redis_url)
    await restarted.evolution.sweep(await restarted.store.searches.get(search.id))
    ended = await restarted.run(await restarted.store.searches.get(search.id))
    candidates = await restarted.store.candidates.list(search.id)
    reports = [len(await reports_on(restarted.store, candidate.id)) for candidate in candidates]
    await restarted.close()
    assert ended.state is SearchState.DONE
    assert len(candidates) == 7 and {item.state for item in candidates} == {CandidateState.JUDGED}
    assert reports == [1] * 7


@pytest.mark.parametrize("kill_after", range(2, 16))
async def test_a_killed_search_on_a_card_loses_no_confirm(
    tmp_path: Path, redis_url: str, kill_after: int, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (10, 15, 20, 11)
    plant(monkeypatch, *sizes)
    speedups = {identity(size): 1.0 + 0.2 * place for place, size in enumerate(sizes)}
    answers = Answers(speedup=lambda job: speedups[bundle_of(job).identity], rival=lambda job: 1.1)
    bench.answers, bench.devices = answers, (DEVICE,)
    search = await bench.begin(evaluations=len(sizes))
    for _ in range(kill_after):
        await bench.evolution.tick()
        bench.work(most=1)
    if kill_after % 2:
        redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(tmp_path, redis_url)
    restarted.answers, restarted.devices = answers, (DEVICE,)
    await restarted.evolution.sweep(await restarted.store.searches.get(search.id))
    ended = await restarted.run(await restarted.store.searches.get(search.id))
    assert ended.state is SearchState.DONE and await outcomes(restarted, ended) == ["correct"] * len(sizes)
    held = {elite.bundle: elite.objective for elite in await elites(restarted, ended)}
    assert held == {identity(size): pytest.approx(0.98 * speedups[identity(size)]) for size in (20, 11)}
    pacers = {job.pacer.identity for job in restarted.judged(MeasureJob) if job.pacer}
    assert pacers == {records.bundle_from(seed(10)).reduced().identity}
    await restarted.close()


@pytest.mark.parametrize("device", [DEVICE, records.DEVICE])
@pytest.mark.parametrize("writes", [7, 11, 14, 16, 18, 20])
async def test_a_kill_between_two_writes_neither_loses_nor_doubles_a_refused_seed(
    tmp_path: Path, redis_url: str, writes: int, device: str, bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes = (10, 11, 12)
    plant(monkeypatch, *sizes)
    wrong = identity(10)
    answers = Answers(outcome=lambda job: Outcome.WRONG_RESULT if bundle_of(job).identity == wrong else Outcome.CORRECT)
    bench.answers, bench.devices = answers, (device,)
    search = await bench.begin(evaluations=3)
    left = [writes]

    def kill(_: object) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise KeyError("killed before this write")

    event.listen(bench.store.searches._database._writer.sync_engine, "begin", kill)
    with pytest.raises(KeyError, match="killed"):
        await bench.run(search)
    redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(tmp_path, redis_url)
    restarted.answers, restarted.devices = answers, (device,)
    ended = await restarted.run(search)
    seeds = await restarted.store.candidates.seeds(search.id)
    kinds = ["measure", "confirm"] if device == DEVICE else ["measure"]
    assert (ended.state, ended.reference_seed) == (SearchState.DONE, 1)
    assert [each.outcome for each in seeds] == ["wrong_result", "correct", "correct"]
    told = [[report.kind for report in await reports_on(restarted.store, each.id)] for each in seeds]
    assert told == [["measure"], kinds, kinds]
    held = await restarted.store.elites.list(search.id, device, 1)
    assert {elite.bundle: elite.mid for elite in held} == {identity(11): 1.0, identity(12): 1.0}
    counts = await restarted.store.candidates.count(search.id)
    assert (counts.proposals, counts.candidates, counts.evaluated) == (3, 3, 3)
    await restarted.close()


async def test_a_repeated_report_changes_nothing(bench: Workbench) -> None:
    ended = await bench.run(await bench.begin(evaluations=3))
    before = await bench.store.elites.list(ended.id, records.DEVICE, 1)
    job = next(job for job in bench.answers.seen if isinstance(job, MeasureJob))
    await bench.dispatcher.submit(job)
    bench.work()
    await bench.evolution.tick()
    assert await bench.store.elites.list(ended.id, records.DEVICE, 1) == before
    assert job.id == measure_id(job.candidate, job.variant, records.DEVICE)


async def test_a_paused_search_proposes_nothing(bench: Workbench) -> None:
    search = await bench.begin(evaluations=50)
    for _ in range(6):
        await bench.evolution.tick()
        bench.work()
    await bench.store.searches.set_state(search.id, SearchState.PAUSED)
    before = (await bench.store.candidates.count(search.id)).proposals
    for _ in range(4):
        await bench.evolution.tick()
        bench.work()
    after = await bench.store.candidates.count(search.id)
    assert (after.proposals, after.in_flight) == (before, 0)


@pytest.mark.parametrize("state", [SearchState.STOPPED, SearchState.PAUSED])
async def test_what_a_person_ends_between_two_looks_stays_ended(bench: Workbench, state: SearchState) -> None:
    search = await bench.begin(evaluations=9)
    await bench.evolution.tick()
    before = (await bench.store.candidates.count(search.id)).proposals
    await bench.store.searches.change(search.id, evaluations=8)
    await bench.evolution._cache.look()
    await bench.store.searches.set_state(search.id, state)
    await bench.evolution._supply_all()
    assert (await bench.store.searches.get(search.id)).state is state
    assert (await bench.store.candidates.count(search.id)).proposals == before, "nothing is proposed for it any more"


@pytest.mark.parametrize("known", [True, False])
async def test_what_a_person_deletes_between_two_looks_is_left_alone(bench: Workbench, known: bool) -> None:
    search = await bench.begin(evaluations=9)
    await bench.evolution.tick()
    await bench.evolution._cache.look()
    assert search.id in bench.evolution._cache.fingerprints
    await bench.store.searches.set_state(search.id, SearchState.STOPPED)
    await bench.store.retention.delete(search.id)
    if not known:
        bench.evolution._cache._known.pop(search.id)
    await bench.evolution._supply_all()
    await bench.evolution.tick()
    assert bench.evolution._cache.fingerprints == {}


async def test_a_queue_that_lost_everything_costs_only_jobs_sent_again(bench: Workbench) -> None:
    search = await bench.begin(evaluations=6)
    for _ in range(6):
        await bench.evolution.tick()
        bench.work(most=2)
    in_flight = (await bench.store.candidates.count(search.id)).in_flight
    with redis.Redis.from_url(bench.redis_url) as client:
        client.flushall()
    bench.evolution._suspect_losses()  # as after a restart of the server
    ended = await bench.run(search)
    assert in_flight > 0 and ended.state is SearchState.DONE
    candidates = await bench.store.candidates.list(search.id)
    assert [len(await reports_on(bench.store, item.id)) for item in candidates] == [1] * 6


async def test_what_is_left_of_a_stopped_search_leaves_the_queue(bench: Workbench) -> None:
    search = await bench.begin(evaluations=50)
    for _ in range(5):
        await bench.evolution.tick()
        bench.work(most=2)
    await bench.evolution.tick()
    assert await bench.dispatcher.outstanding(search.id)
    await bench.store.searches.set_state(search.id, SearchState.STOPPED)
    await bench.evolution.tick()
    assert await bench.dispatcher.outstanding(search.id) == set()
    assert bench.evolution.search_leases.held == frozenset()


async def test_nobody_waits_for_a_tick_that_has_much_to_propose(bench: Workbench) -> None:
    search = await bench.begin(evaluations=100)
    await bench.evolution.tick()
    while (await bench.store.searches.get(search.id)).state is not SearchState.RUNNING:
        bench.work()
        await bench.evolution.tick()
    before = (await bench.store.candidates.count(search.id)).candidates
    await bench.evolution.tick()
    assert (await bench.store.candidates.count(search.id)).candidates - before <= 4


async def test_a_coordinator_that_joins_takes_its_share_of_searches_under_way(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_S", 0.05)
    first = await Workbench.open(tmp_path, redis_url, alone=False)
    second = await Workbench.open(tmp_path, redis_url, alone=False)
    searches = [await first.begin(evaluations=6, id=f"search-{number}") for number in range(4)]
    for _ in range(4):
        await first.evolution.tick()
        await asyncio.to_thread(first.work, 2)
    assert len(first.evolution.search_leases.held) == 4
    most = 0
    for _ in range(100):
        for bench in (first, second):
            await bench.evolution.tick()
            await asyncio.to_thread(bench.work)
        held = [bench.evolution.search_leases.held for bench in (first, second)]
        assert not held[0] & held[1], "no search is held twice"
        most = max(most, len(held[1]))
        states = {(await first.store.searches.get(search.id)).state for search in searches}
        if states == {SearchState.DONE}:
            break
    assert states == {SearchState.DONE} and most == 2
    for search in searches:
        candidates = await first.store.candidates.list(search.id)
        assert [item.state for item in candidates] == [CandidateState.JUDGED] * 6
        assert [len(await reports_on(first.store, item.id)) for item in candidates] == [1] * 6
    for bench in (first, second):
        await bench.close()
