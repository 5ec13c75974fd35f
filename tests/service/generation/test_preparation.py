"""A search runs with its reference, its operator's admission and the reference seed's verdict, in whatever order."""

from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import redis

from archive.records import CandidateState, SearchRecord, SearchState
from service.evaluation.jobs import admission_id, draft_id, measure_id, reference_id, trace_id
from service.evaluation.reports import reports_on
from tests.service import records
from tests.service.measured import DEVICE
from tests.service.records import TUNABLE
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import MeasureJob, Outcome


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def test_what_is_missing_holds_the_search_back(bench: Workbench) -> None:
    search = await bench.begin(evaluations=4)
    kept = {reference_id(search.id), admission_id(search.id)}
    for held, measured in ((kept, False), ({admission_id(search.id)}, True)):
        for _ in range(6):
            await bench.evolution.tick()
            bench.work(but=held)
        assert (await bench.store.searches.get(search.id)).state is SearchState.PREPARING
        assert bool(bench.judged(MeasureJob)) == measured
    ended = await bench.run(search)
    assert ended.state is SearchState.DONE and len(await bench.store.candidates.list(search.id)) == 4


async def test_an_admission_brings_the_reference_too(bench: Workbench) -> None:
    search = await bench.begin(evaluations=2)
    for _ in range(6):
        await bench.evolution.tick()
        bench.work(but={reference_id(search.id)})
    assert bench.judged(MeasureJob) and (await bench.store.searches.get(search.id)).graphs


SEEDS = tuple(TUNABLE.replace("256", str(block)) for block in (256, 512, 1024))


@pytest.fixture
async def planted(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> Workbench:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": SEEDS}))
    return bench


async def jobs_of_other_seeds(bench: Workbench, search: SearchRecord) -> set[str]:
    """Ids of all jobs about seeds that no figure relates to now."""
    reference = (await bench.store.searches.get(search.id)).reference_seed
    others = [seed.id for seed in await bench.store.candidates.seeds(search.id) if seed.ordinal != reference]
    return {job for id in others for job in (trace_id(id), measure_id(id, 0, bench.devices[0]))}


async def until_proposed(bench: Workbench, search: SearchRecord) -> None:
    """Let a search go on until its first proposal; jobs about the other seeds stay queued."""
    for _ in range(40):
        await bench.evolution.tick()
        if (await bench.store.candidates.count(search.id)).proposals > len(SEEDS):
            return
        bench.work(but=await jobs_of_other_seeds(bench, search))
    raise AssertionError("nothing was proposed")


@pytest.mark.parametrize("device", [DEVICE, records.DEVICE])
async def test_proposals_wait_for_the_reference_seed_alone(planted: Workbench, device: str) -> None:
    planted.devices = (device,)
    search = await planted.begin(evaluations=7)
    await until_proposed(planted, search)
    first, *others = await planted.store.candidates.seeds(search.id)
    assert (first.outcome, {seed.state for seed in others}) == ("correct", {CandidateState.QUEUED})
    assert {job.candidate for job in planted.judged(MeasureJob)} == {first.id}
    ended = await planted.run(search)
    seeds = await planted.store.candidates.seeds(search.id)
    assert (ended.state, [seed.outcome for seed in seeds]) == (SearchState.DONE, ["correct"] * 3)
    assert (await planted.store.candidates.count(search.id)).evaluated == 7


@pytest.mark.parametrize("kind", ["measure", "confirm"])
async def test_nothing_is_proposed_before_the_seed_that_takes_a_refused_ones_place_is_judged(
    planted: Workbench, kind: str
) -> None:
    wrong = records.bundle_from(SEEDS[0]).identity
    refused = (kind, wrong)
    planted.answers = Answers(
        outcome=lambda job: Outcome.WRONG_RESULT if (job.kind, bundle_of(job).identity) == refused else Outcome.CORRECT
    )
    planted.devices = (DEVICE,)
    search = await planted.begin(evaluations=6)
    await until_proposed(planted, search)
    running = await planted.store.searches.get(search.id)
    outcomes = [seed.outcome for seed in await planted.store.candidates.seeds(search.id)]
    assert (running.state, running.reference_seed) == (SearchState.RUNNING, 1)
    assert outcomes == ["wrong_result", "correct", None]
    assert (await planted.run(search)).state is SearchState.DONE
    pacers = {job.pacer.identity for job in planted.judged(MeasureJob) if job.pacer}
    assert pacers == {records.bundle_from(SEEDS[1]).reduced().identity}


async def test_nothing_is_proposed_for_an_operator_without_a_correct_seed(planted: Workbench) -> None:
    planted.answers = Answers(outcome=lambda job: Outcome.WRONG_RESULT)
    ended = await planted.run(await planted.begin(evaluations=6))
    assert ended.state is SearchState.FAILED and ended.reason.startswith("no seed kernel is correct")
    assert (await planted.store.candidates.count(ended.id)).proposals == len(SEEDS)


@pytest.mark.parametrize("lost", [False, True])
@pytest.mark.parametrize("device", [DEVICE, records.DEVICE])
async def test_seeds_that_a_kill_leaves_behind_the_first_proposals_are_judged_once(
    planted: Workbench, tmp_path: Path, redis_url: str, lost: bool, device: str
) -> None:
    planted.devices = (device,)
    search = await planted.begin(evaluations=6)
    await until_proposed(planted, search)
    if lost:
        redis.Redis.from_url(redis_url).flushall()
    restarted = await Workbench.open(tmp_path, redis_url)
    restarted.devices = planted.devices
    ended = await restarted.run(search)
    candidates = await restarted.store.candidates.list(search.id)
    measured = [
        Counter(report.kind for report in await reports_on(restarted.store, each.id))["measure"] for each in candidates
    ]
    await restarted.close()
    assert (ended.state, ended.reference_seed) == (SearchState.DONE, 0)
    assert {each.state for each in candidates} == {CandidateState.JUDGED} and measured == [1] * 6


async def test_a_search_is_prepared_only_with_its_draft(planted: Workbench) -> None:
    planted.answers = Answers(draft=TUNABLE.replace("256", "2048"))
    search = await planted.begin(evaluations=6, emitters=("seed", "tune"))
    for _ in range(6):
        await planted.evolution.tick()
        planted.work(but={draft_id(search.id)})
    complete, found = planted.evolution.preparation.is_complete, await planted.store.searches.get(search.id)
    assert (await planted.store.candidates.count(search.id)).evaluated == len(SEEDS)
    assert found.state is SearchState.PREPARING and not await complete(found, records.OPERATOR)
    ended = await planted.run(search)
    assert [each.emitter for each in (await planted.store.candidates.list(search.id))[::-1]][3:5] == ["seed", "tune"]
    assert await complete(ended, records.OPERATOR)
