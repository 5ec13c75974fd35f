"""Every report is applied by the coordinator that runs its search, and one that cannot be applied holds up no other."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import SearchState
from service.emitters import EMITTERS, Emitter, Proposal, ProposalContext
from service.evaluation.jobs import draft_id, reference_id
from service.evaluation.reports import reports_on
from service.scheduler.leases import SearchLeases
from service.scheduler.poison_reports import MOST_REFUSED
from tests.service import records
from tests.service.records import TUNABLE
from tests.service.workbench import Workbench
from workers.protocol import MeasureJob, Outcome, TraceReport
from workers.queue import LeaseClient


@pytest.fixture(autouse=True)
def tunable_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))


@pytest.fixture
async def pair(tmp_path: Path, redis_url: str) -> AsyncIterator[tuple[Workbench, Workbench]]:
    """Two coordinators on one archive and one queue."""
    first = await Workbench.open(tmp_path, redis_url, alone=False)
    second = await Workbench.open(tmp_path, redis_url, alone=False)
    yield first, second
    await first.close()
    await second.close()


async def test_two_coordinators_run_two_searches_whoever_collects(pair: tuple[Workbench, Workbench]) -> None:
    searches = [await bench.begin(id=f"search-{place}", evaluations=5) for place, bench in enumerate(pair)]
    for _ in range(300):
        for bench in pair:
            await bench.evolution.tick()
        await asyncio.to_thread(pair[0].work, 4)
        states = [(await pair[0].store.searches.get(search.id)).state for search in searches]
        if states == [SearchState.DONE] * 2:
            break
    assert states == [SearchState.DONE] * 2
    for search, bench in zip(searches, pair, strict=True):
        counts = await bench.store.candidates.count(search.id)
        assert (counts.candidates, counts.evaluated) == (5, 5)
    handed = await pair[0].dispatcher.forwarding.given({search.id for search in searches})
    assert handed == [] and await pair[0].dispatcher.stats.reports_waiting() == 0


async def test_a_search_goes_on_where_its_coordinator_died(tmp_path: Path, pair: tuple[Workbench, Workbench]) -> None:
    first, second = pair
    search = await first.begin(evaluations=6)
    for _ in range(4):
        await first.evolution.tick()
        first.work(most=2)
    await first.evolution.search_leases.release([search.id])  # as when its term has ended
    ended = await second.run(search)
    candidates = await second.store.candidates.list(search.id)
    assert ended.state is SearchState.DONE and len(candidates) == 6
    assert [len(await reports_on(second.store, item.id)) for item in candidates] == [1] * 6


async def test_a_deposed_coordinator_proposes_nothing(pair: tuple[Workbench, Workbench]) -> None:
    first = pair[0]
    search = await first.begin(evaluations=50)
    for _ in range(5):
        await first.evolution.tick()
        first.work()
    before = await first.store.candidates.count(search.id)
    assert await first.store.search_leases.take("usurper", 60.0, most=1, by_force=True)
    await first.evolution.tick()  # it believes that the search is its own until it renews
    assert (await first.store.candidates.count(search.id)).proposals == before.proposals


async def test_a_report_that_cannot_be_applied_holds_up_no_other(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=3)
    lessee = LeaseClient(redis_url, "w", target="sm_90")
    lease = lessee.lease(block_ms=100)
    assert lease is not None
    unknown = TraceReport(job="none:trace", search=search.id, candidate="none", worker="w", outcome=Outcome.CORRECT)
    lessee.report(lease, unknown)
    lessee.report(lease, bench.answers.to(lease.job))
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE and isinstance(bench.evolution.search_leases, SearchLeases)
    assert await bench.dispatcher.stats.reports_waiting() == 0
    await bench.close()


async def test_a_report_that_the_archive_does_not_take_fails_alone(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=4)
    while (await bench.store.candidates.count(search.id)).in_flight < 2:
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work, 1)
    lessee = LeaseClient(redis_url, "w", target="sm_90")
    leases = [lease for _ in range(2) if (lease := lessee.lease(block_ms=100)) is not None]
    hostile, honest = (bench.answers.to(lease.job) for lease in leases)
    hostile = hostile.model_copy(update={"outcome": Outcome.COMPILE_ERROR, "variants": (), "line": 2**70})
    for lease, report in zip(leases, (hostile, honest), strict=True):
        lessee.report(lease, report)
    await bench.evolution.tick()
    assert await bench.dispatcher.stats.reports_waiting() == 0
    assert isinstance(honest, TraceReport) and await bench.store.candidates.variants(honest.candidate or "")
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE, "the job of the hostile report was sent again"
    await bench.close()


def forbid(folder: Path, what: str) -> None:
    """Have the archive refuse a kind of write, whoever asks for it."""
    with sqlite3.connect(folder / "reef.db") as connection:
        connection.execute(f"CREATE TRIGGER full BEFORE {what} BEGIN SELECT RAISE(ABORT, 'there is no room'); END")
    connection.close()


def sent(bench: Workbench, job: str) -> int:
    """How often workers got a job."""
    return sum(each.id == job for each in bench.answers.seen)


async def test_a_search_whose_reference_cannot_be_kept_fails_with_the_reason(tmp_path: Path, redis_url: str) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=3)
    forbid(tmp_path, "UPDATE OF graphs ON searches")
    ended = await bench.run(search, rounds=20)
    assert ended.state is SearchState.FAILED
    assert "reference" in ended.reason and "there is no room" in ended.reason
    assert sent(bench, reference_id(search.id)) == MOST_REFUSED
    assert await bench.dispatcher.stats.reports_waiting() == 0
    await bench.close()


async def test_a_search_whose_reference_nobody_reports_readably_fails_with_the_reason(
    tmp_path: Path, redis_url: str
) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=3)
    lessee, answered = LeaseClient(redis_url, "w", target="sm_90"), 0
    while (await bench.store.searches.get(search.id)).state is SearchState.PREPARING:
        lease = lessee.lease(block_ms=100)
        assert lease is not None
        asked = lease.job.id == reference_id(search.id)
        lessee.report(lease, bench.answers.to(lease.job).model_copy(update={"line": -1} if asked else {}))
        answered += asked
        await bench.evolution.tick()
    ended = await bench.store.searches.get(search.id)
    assert (ended.state, answered) == (SearchState.FAILED, MOST_REFUSED)
    assert "reference" in ended.reason and "line" in ended.reason
    assert await bench.dispatcher.stats.reports_waiting() == 0
    await bench.close()


async def test_a_candidate_whose_reports_cannot_be_kept_is_lost_and_the_search_goes_on(
    tmp_path: Path, redis_url: str
) -> None:
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=4)
    while not (await bench.store.candidates.count(search.id)).evaluated:
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
    forbid(tmp_path, "INSERT ON reports WHEN NEW.outcome = 'correct'")
    ended = await bench.run(search, rounds=60)
    later = (await bench.store.candidates.list(search.id))[:-1]
    assert (ended.state, len(later)) == (SearchState.DONE, 3)
    assert {item.outcome for item in later} == {"worker_lost"} and all("no room" in item.reason for item in later)
    measured = [job.id for job in bench.judged(MeasureJob) if job.candidate in {item.id for item in later}]
    assert {measured.count(job) for job in measured} == {MOST_REFUSED}
    await bench.close()


class Broken(Emitter):
    """One with a mistake in it."""

    name = "broken"
    proposes_draft = True

    async def propose(self, brief: ProposalContext) -> Proposal | None:
        """Propose nothing."""
        raise TypeError("a mistake of ours")


async def test_a_search_that_takes_no_report_at_all_on_a_job_fails_and_others_go_on(
    tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EMITTERS, "broken", Broken())
    bench = await Workbench.open(tmp_path, redis_url)
    search = await bench.begin(evaluations=4, emitters=("broken", "tune"))
    other = await bench.begin(id="other", evaluations=4)
    assert (await bench.run(other, rounds=40)).state is SearchState.DONE
    ended = await bench.run(search, rounds=20)
    assert ended.state is SearchState.FAILED
    assert draft_id(search.id) in ended.reason and "a mistake of ours" in ended.reason
    assert sent(bench, draft_id(search.id)) == MOST_REFUSED
    assert await bench.dispatcher.stats.reports_waiting() == 0
    await bench.close()
