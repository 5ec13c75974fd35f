"""The first seed is what all others are held against: measured before them, and every job's pacer from then on."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from archive.records import SearchState
from service.evaluation.reference_seed import ReferenceSeed
from tests.service import records
from tests.service.measured import DEVICE, identity, plant
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import ConfirmJob, Job, MeasureJob, Outcome, TraceJob

FIRST, SECOND, THIRD = 10, 11, 12
VARIANTS = tuple(records.bundle(grid) for grid in (71, 72))


@pytest.fixture
async def card(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, FIRST, SECOND, THIRD)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()


def variants_of_the_first(source: str) -> tuple[object, ...]:
    return VARIANTS if source == records.OPERATOR.seeds[0] else ()


def of(candidate: int, jobs: Sequence[Job]) -> list[type[Job]]:
    """What was asked about one of a search's candidates."""
    known = list(dict.fromkeys(job.candidate for job in jobs if job.candidate))
    return [type(job) for job in jobs if job.candidate == known[candidate]]


async def test_all_seeds_are_traced_while_the_first_is_judged(card: Workbench) -> None:
    await card.run(await card.begin(evaluations=3))
    seen = card.answers.seen
    kinds = [type(job) for job in seen]
    assert kinds[:4] == [TraceJob] * 4, "the reference, then every seed"
    judged = max(number for number, job in enumerate(seen) if job.candidate == seen[1].candidate) + 1
    assert Counter(of(0, seen[:judged])) == {TraceJob: 2, MeasureJob: 1, ConfirmJob: 1}
    assert of(1, seen[:judged]) == of(2, seen[:judged]) == [TraceJob], "they wait for its verdict"
    assert kinds.count(TraceJob) == 2 + 3 + 3 and kinds.count(MeasureJob) == 3, "each is traced twice: all would win"


async def test_seeds_that_wait_are_measured_after_a_restart(card: Workbench, tmp_path: Path, redis_url: str) -> None:
    search = await card.begin(evaluations=3)
    while not card.judged(ConfirmJob):
        await card.evolution.tick()
        card.work()
    assert len(card.judged(MeasureJob)) == 1
    again = await Workbench.open(tmp_path, redis_url)
    again.devices = card.devices
    ended = await again.run(search)
    await again.close()
    assert ended.state is SearchState.DONE and len(again.judged(MeasureJob)) == 2


async def test_on_models_all_seeds_are_planted_at_once(card: Workbench) -> None:
    card.devices = (records.DEVICE,)
    await card.run(await card.begin(evaluations=3))
    assert [type(job) for job in card.answers.seen][:4] == [TraceJob] * 4
    assert all(job.pacer is None for job in card.judged(MeasureJob))


async def test_every_job_but_the_first_seeds_own_carries_its_benchmark_plans(card: Workbench) -> None:
    await card.run(await card.begin(evaluations=3))
    first, *others = card.judged(MeasureJob)
    assert first.bundle.identity == identity(FIRST) and first.pacer is None
    pacer = first.bundle.reduced()
    assert len(pacer.plans) == 2 and [job.pacer for job in others] == [pacer, pacer]
    assert [job.pacer for job in card.judged(ConfirmJob)] == [pacer] * 3


async def test_variants_of_the_first_seed_wait_for_the_one_that_becomes_the_pacer(card: Workbench) -> None:
    card.answers = Answers(further=variants_of_the_first)
    search = await card.begin(evaluations=3)
    while not card.judged(MeasureJob):
        await card.evolution.tick()
        card.work()
    assert len(card.judged(MeasureJob)) == 1
    ended = await card.run(search)
    first, *others = card.judged(MeasureJob)
    assert ended.state is SearchState.DONE and len(others) == 4
    assert first.pacer is None and {job.pacer.identity for job in others if job.pacer} == {
        first.bundle.reduced().identity
    }


async def test_the_first_correct_variant_of_the_first_seed_is_the_pacer(card: Workbench) -> None:
    wrong = {identity(FIRST)}
    card.answers = Answers(
        further=variants_of_the_first,
        outcome=lambda job: Outcome.WRONG_RESULT if bundle_of(job).identity in wrong else Outcome.CORRECT,
    )
    ended = await card.run(await card.begin(evaluations=3))
    pacers = [job.pacer and job.pacer.identity for job in card.judged(MeasureJob)]
    assert ended.state is SearchState.DONE
    assert pacers == [None, None] + [VARIANTS[0].reduced().identity] * 3


async def test_a_variant_that_is_found_wrong_the_second_time_paces_nobody_any_more(card: Workbench) -> None:
    wrong = (ConfirmJob, identity(FIRST))
    card.answers = Answers(
        further=variants_of_the_first,
        outcome=lambda job: Outcome.HANG if (type(job), bundle_of(job).identity) == wrong else Outcome.CORRECT,
    )
    ended = await card.run(await card.begin(evaluations=3))
    pacers = [job.pacer.identity for job in card.judged(MeasureJob)[-2:] if job.pacer]
    assert ended.state is SearchState.DONE
    assert pacers == [VARIANTS[0].reduced().identity] * 2


async def test_a_search_whose_first_seed_is_wrong_the_second_time_fails(card: Workbench) -> None:
    card.answers = Answers(
        outcome=lambda job: Outcome.NONDETERMINISTIC if isinstance(job, ConfirmJob) else Outcome.CORRECT
    )
    ended = await card.run(await card.begin(evaluations=3))
    assert ended.state is SearchState.FAILED and "nondeterministic" in ended.reason
    assert len(card.judged(MeasureJob)) == 1


async def test_the_pacer_is_found_again_in_the_archive(card: Workbench, tmp_path: Path, redis_url: str) -> None:
    search = await card.begin(evaluations=3)
    assert await card.evolution.verdicts.reference_seed.pacer(search, DEVICE) is None
    await card.run(search)
    known = await card.evolution.verdicts.reference_seed.pacer(search, DEVICE)
    fresh = ReferenceSeed(card.store)
    assert known is not None and known == await fresh.pacer(search, DEVICE) == await fresh.pacer(search, DEVICE)
    assert await fresh.pacer(search, "h100") is None
