"""A search on a card that is killed before or after any of its transactions ends as it would have ended undisturbed.

Its kernels contest three cells: holders follow one another, one is wrong in its confirm and one in its second trace.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import redis
from sqlalchemy.ext.asyncio import AsyncConnection

from archive.records import Placement, SearchRecord, SearchState
from archive.store import Store
from archive.store.engine import Database
from service.evaluation import confirmations
from service.evaluation.jobs import retrace_id
from service.evaluation.reports import reports_on
from tests.archives import archive_in
from tests.service.measured import DEVICE, history, identity, plant, seed
from tests.service.records import bundle
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import ConfirmJob, Outcome, TraceJob, TraceReport

SPEEDS = {10: 1.0, 15: 1.3, 20: 1.6, 25: 1.1, 11: 0.8, 16: 1.5, 12: 1.2, 17: 0.9, 22: 1.7}
"""Speedups by size of seed; sizes that differ by a multiple of five share a cell."""
WRONG, MOVING = 20, 22
"""Sizes of the seed whose confirm finds it wrong, and of the one whose second trace differs."""
HOLDERS = {15, 16, 12}
"""Sizes of the seeds that hold the cells in the end."""
WRITES = 60
"""Transactions of an undisturbed search, at least: two more or less are joined, as the clock has it."""


class Killed(BaseException):
    """The end of a coordinator."""


class MortalDatabase(Database):
    """A database whose coordinator dies at one transaction.

    Attributes:
        dies_at: Number of the transaction; None while it lives on.
        committed: True to die after the commit, False to die before.
        begun: Number of transactions so far.
    """

    dies_at: int | None = None
    committed = False
    begun = 0

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """Open a transaction."""
        mine, self.begun = self.begun, self.begun + 1
        if mine == self.dies_at and not self.committed:
            raise Killed
        async with super().write() as connection:
            yield connection
        if mine == self.dies_at:
            raise Killed


class MovingAnswers(Answers):
    """Answers of a worker whose second trace of one seed differs, whatever traces were lost before."""

    def _traced(self, job: TraceJob) -> TraceReport:
        report = super()._traced(job)
        if job.source != seed(MOVING) or job.id != retrace_id(job.candidate or ""):
            return report
        moved = report.variants[0].model_copy(update={"bundle": bundle(99)})
        return report.model_copy(update={"variants": (moved,)})


def kernels() -> Answers:
    """A worker's answers, which depend on the kernel alone."""
    speeds = {identity(size): speed for size, speed in SPEEDS.items()}
    known = {seed(size): identity(size) for size in SPEEDS}

    def rival(job: ConfirmJob) -> float:
        assert job.incumbent is not None
        return speeds[bundle_of(job).identity] / speeds[job.incumbent.identity]

    def outcome(job: object) -> Outcome:
        wrong = isinstance(job, ConfirmJob) and bundle_of(job).identity == known[seed(WRONG)]
        return Outcome.WRONG_RESULT if wrong else Outcome.CORRECT

    return MovingAnswers(outcome=outcome, speedup=lambda job: speeds[bundle_of(job).identity], rival=rival)


@pytest.fixture
async def database(tmp_path: Path) -> AsyncIterator[MortalDatabase]:
    """The archive's database."""
    database = MortalDatabase.open(archive_in(tmp_path))
    yield database
    await database.close()


@pytest.fixture
async def card(database: MortalDatabase, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    """A workbench with a card."""
    plant(monkeypatch, *SPEEDS)
    monkeypatch.setattr(confirmations, "LOOK_S", 0.0)
    bench = Workbench.over(Store(database), redis_url)
    bench.devices, bench.answers = (DEVICE,), kernels()
    yield bench
    await bench.close()


async def run(bench: Workbench, search: SearchRecord) -> SearchRecord:
    """Run a search to its end, a few jobs at a time."""
    for _ in range(400):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work, 2)
        search = await bench.store.searches.get(search.id)
        if search.state is SearchState.DONE and not search.finishing:
            return search
    raise AssertionError(f"the search is {search.state}")


async def audit(bench: Workbench, search: SearchRecord) -> None:
    """Compare the archive with what must be in it."""
    candidates = (await bench.store.candidates.list(search.id))[::-1]
    expected = {WRONG: "wrong_result", MOVING: "nondeterministic"}
    assert [each.outcome for each in candidates] == [expected.get(size, "correct") for size in SPEEDS]
    assert [each.objective for each in candidates] == [
        None if size in expected else pytest.approx(0.98 * speed) for size, speed in SPEEDS.items()
    ]
    holders = await bench.store.elites.holders(search.id, DEVICE, 1)
    assert {each.bundle: each.objective for each in holders} == {
        identity(size): pytest.approx(0.98 * SPEEDS[size]) for size in HOLDERS
    }
    elites = await bench.store.elites.list(search.id, DEVICE, 1)
    assert max(each.objective for each in elites) == pytest.approx(0.98 * SPEEDS[16]), "who leads is confirmed"
    entries = await history(bench, search)
    assert len({(each.job, each.cell) for each in entries}) == len(entries)
    won = [each for each in entries if each.placement in (Placement.NEW, Placement.IMPROVED)]
    assert sum(each.revision for each in elites) == len(won) >= len(elites)
    assert len({(each.bundle, each.cell) for each in won}) == len(won), "no kernel takes a cell twice"
    counts = await bench.store.candidates.count(search.id)
    progress = await bench.store.elites.progress(search.id, DEVICE, 6)
    assert (counts.evaluated, progress.evaluated, counts.in_flight) == (len(SPEEDS), len(SPEEDS), 0)
    assert sum(each["promotions"] for each in progress.emitters.values()) == len(won), "no credit twice"
    for candidate in candidates:
        reports = await reports_on(bench.store, candidate.id)
        assert Counter(each.kind for each in reports)["measure"] == 1
        confirmed = [each.job for each in reports if each.kind == "confirm"]
        assert len(confirmed) == len(set(confirmed))


async def test_undisturbed(card: Workbench, database: MortalDatabase) -> None:
    search = await card.begin(evaluations=len(SPEEDS))
    before = database.begun
    await audit(card, await run(card, search))
    assert database.begun - before >= WRITES
    jobs = [job.id for job in card.answers.seen if not isinstance(job, TraceJob)]
    assert len(jobs) == len(set(jobs)), "no measurement and no confirm twice"


async def _killed_and_continued(
    card: Workbench, folder: Path, redis_url: str, number: int, *, committed: bool, queue_lost: bool = False
) -> None:
    search, database = await card.begin(evaluations=len(SPEEDS)), card.store._database
    assert isinstance(database, MortalDatabase)
    database.dies_at, database.committed = database.begun + number, committed
    with pytest.raises(Killed):
        await run(card, search)
    database.dies_at = None
    if queue_lost:
        redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(folder, redis_url)
    restarted.devices, restarted.answers = card.devices, card.answers
    try:
        await audit(restarted, await run(restarted, search))
    finally:
        await restarted.close()
    if not queue_lost:
        again = Counter(job.id for job in card.answers.seen if isinstance(job, ConfirmJob))
        assert all(times == 1 for times in again.values()), "no confirm twice"


@pytest.mark.parametrize("number", range(4, WRITES, 8))
@pytest.mark.parametrize("committed", [False, True])
async def test_a_kill_at_a_transaction_loses_and_doubles_nothing(
    card: Workbench, tmp_path: Path, redis_url: str, number: int, committed: bool
) -> None:
    await _killed_and_continued(card, tmp_path, redis_url, number, committed=committed)


@pytest.mark.slow(reason="every transaction; the case above takes every eighth")
@pytest.mark.parametrize("number", range(WRITES))
@pytest.mark.parametrize("committed", [False, True])
@pytest.mark.parametrize("queue_lost", [False, True])
async def test_a_kill_at_any_transaction(
    card: Workbench, tmp_path: Path, redis_url: str, number: int, committed: bool, queue_lost: bool
) -> None:
    told = {"committed": committed, "queue_lost": queue_lost}
    await _killed_and_continued(card, tmp_path, redis_url, number, **told)
