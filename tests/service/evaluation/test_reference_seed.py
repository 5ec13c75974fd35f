"""The first seed is what all others are held against: measured before them, and every job's pacer from then on."""

from collections import Counter
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from archive.records import SearchState
from service.evaluation.reference_seed import ReferenceSeed
from tests.service import records
from tests.service.measured import DEVICE, identity, outcomes, plant, seed
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import ConfirmJob, Job, MeasureJob, Outcome, Report, TraceJob

FIRST, SECOND, THIRD = 10, 11, 12
RIGHT = Outcome.CORRECT
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


async def test_a_search_whose_seeds_are_all_wrong_the_second_time_fails(card: Workbench) -> None:
    card.answers = Answers(
        outcome=lambda job: Outcome.NONDETERMINISTIC if isinstance(job, ConfirmJob) else Outcome.CORRECT
    )
    ended = await card.run(await card.begin(evaluations=3))
    assert ended.state is SearchState.FAILED
    assert ended.reason == "no seed kernel is correct: " + "; ".join(
        f"seed {number} is refused (nondeterministic)" for number in range(3)
    )
    assert [job.pacer for job in card.judged(MeasureJob)] == [None] * 3


def refusing(*sizes: int, kind: str = "measure", outcome: Outcome = Outcome.WRONG_RESULT) -> Answers:
    """A worker that refuses the seeds of these sizes: when traced, measured or confirmed."""
    refused = {identity(size) for size in sizes}
    if kind == "trace":
        sources = {seed(size) for size in sizes}
        return Answers(bundle=lambda source: None if source in sources else records.bundle_from(source))
    return Answers(outcome=lambda job: outcome if (bundle_of(job).identity in refused and kind == job.kind) else RIGHT)


@pytest.mark.parametrize(
    ("kind", "outcome", "device"),
    [
        ("measure", Outcome.WRONG_RESULT, DEVICE),
        ("measure", Outcome.WRONG_RESULT, records.DEVICE),
        ("measure", Outcome.HANG, DEVICE),
        ("measure", Outcome.WORKER_LOST, records.DEVICE),
        ("confirm", Outcome.WRONG_RESULT, DEVICE),
        ("trace", Outcome.COMPILE_ERROR, DEVICE),
        ("trace", Outcome.COMPILE_ERROR, records.DEVICE),
    ],
)
async def test_the_next_seed_takes_the_place_of_a_refused_one(
    card: Workbench, kind: str, outcome: Outcome, device: str
) -> None:
    card.answers, card.devices = refusing(FIRST, kind=kind, outcome=outcome), (device,)
    ended = await card.run(await card.begin(evaluations=3))
    assert (ended.state, ended.reference_seed) == (SearchState.DONE, 1)
    assert ended.refused_seeds.startswith(f"figures relate to seed 1, because seed 0 is refused ({outcome}")
    assert await outcomes(card, ended) == [outcome, "correct", "correct"]
    held = await card.store.elites.list(ended.id, device, ended.axes_version)
    assert {elite.bundle for elite in held} == {identity(SECOND), identity(THIRD)}
    assert {elite.mid for elite in held} == {1.0}
    told = [job.pacer.identity for job in card.judged(MeasureJob)[-1:] if job.pacer]
    assert told == ([records.bundle_from(seed(SECOND)).reduced().identity] if device == DEVICE else [])


@pytest.mark.parametrize("device", [DEVICE, records.DEVICE])
async def test_no_other_candidate_is_measured_before_the_verdict_on_the_reference_seed(
    card: Workbench, device: str
) -> None:
    card.answers, card.devices = refusing(FIRST), (device,)
    search = await card.begin(evaluations=3)
    while (await card.store.searches.get(search.id)).reference_seed == 0:
        assert {bundle_of(job).identity for job in card.judged(MeasureJob)} <= {identity(FIRST)}
        await card.evolution.tick()
        card.work(most=1)
    assert (await card.run(search)).state is SearchState.DONE


async def test_a_seed_with_the_plans_of_a_refused_one_is_refused_with_it(card: Workbench) -> None:
    card.answers = refusing(FIRST, kind="confirm")
    card.answers.bundle = lambda source: records.bundle_from(seed(FIRST) if source == seed(SECOND) else source)
    ended = await card.run(await card.begin(evaluations=3))
    assert (ended.state, ended.reference_seed) == (SearchState.DONE, 2)
    assert await outcomes(card, ended) == ["wrong_result", "wrong_result", "correct"]
    assert "seed 0 is refused (wrong_result); seed 1 is refused (wrong_result)" in ended.refused_seeds
    assert len(card.judged(ConfirmJob)) == 2, "the confirm of equal plans counts for both"


async def test_a_reference_seed_that_is_found_wrong_later_ends_its_search(card: Workbench) -> None:
    search = await card.begin(evaluations=3)
    while not await card.evolution.verdicts.reference_seed.is_final(search):
        await card.evolution.tick()
        card.work(most=1)
    (first, *_) = await card.store.candidates.seeds(search.id)
    confirm = card.answers.to(card.judged(ConfirmJob)[0])
    assert isinstance(confirm, Report) and confirm.candidate == first.id
    wrong = confirm.model_copy(update={"job": f"{confirm.job}later", "outcome": Outcome.WRONG_RESULT, "reason": "no"})
    await card.evolution.verdicts.apply_report(await card.store.searches.get(search.id), records.OPERATOR, wrong)
    ended = await card.store.searches.get(search.id)
    assert (ended.state, ended.reference_seed) == (SearchState.FAILED, 0)
    assert ended.reason == "the seed that all figures relate to was found wrong: seed 0 is refused (wrong_result: no)"


async def test_the_pacer_is_found_again_in_the_archive(card: Workbench, tmp_path: Path, redis_url: str) -> None:
    search = await card.begin(evaluations=3)
    assert await card.evolution.verdicts.reference_seed.pacer(search, DEVICE) is None
    await card.run(search)
    known = await card.evolution.verdicts.reference_seed.pacer(search, DEVICE)
    fresh = ReferenceSeed(card.store)
    assert known is not None and known == await fresh.pacer(search, DEVICE) == await fresh.pacer(search, DEVICE)
    assert await fresh.pacer(search, "h100") is None
