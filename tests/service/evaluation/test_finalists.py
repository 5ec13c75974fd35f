"""Finalists: examined beside a search or after its end, in their cell or out of it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import Placement, SearchRecord, SearchState
from service.evaluation import assignments, jobs
from service.evaluation import finalists as module
from service.evaluation.finalists import (
    INTERPRETED_SHAPES,
    RANDOM_SHAPES,
    ExaminationProgress,
    examination_progress,
    finalists,
)
from service.events import EliteExamined, EliteWithdrawn
from service.generation.supply import Filled
from tests.service import records
from tests.service.measured import DEVICE, elites, history, identity, outcomes, plant, seed
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import PROTOCOL_VERSION, FinalJob, Outcome, ShapeRole, Toolchain, TraceJob, TraceReport
from workers.protocol import operator as operators

SIZES = (10, 11)
"""Of two seeds, each in a cell of its own."""


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    wide = records.OPERATOR.model_copy(update={"ranges": {"N": (1, 8192)}})
    monkeypatch.setattr(records, "OPERATOR", wide)
    plant(monkeypatch, *SIZES)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()


async def standings(bench: Workbench, search: SearchRecord) -> list[str]:
    """What is known of each elite's examination."""
    found = await finalists(bench.store, await elites(bench, search))
    return [result.standing for result in found.values()]


async def test_every_holder_is_traced_anew_and_examined(bench: Workbench) -> None:
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert search.state is SearchState.DONE
    held = await elites(bench, search)
    assert {elite.bundle for elite in held} == {identity(size) for size in SIZES}
    traces = [job for job in bench.answers.finals if isinstance(job, TraceJob)]
    finals = [job for job in bench.answers.finals if isinstance(job, FinalJob)]
    assert len(traces) == len(finals) == len(SIZES)
    assert {job.finalist for job in finals} == {elite.bundle for elite in held}
    drawn = [shape for shape in traces[0].shapes if shape.role is ShapeRole.RANDOM]
    assert 150 < len(drawn) <= RANDOM_SHAPES and traces[0].references
    assert traces[0].shapes != traces[1].shapes, "each is examined on shapes of its own"
    stamps = await finalists(bench.store, held)
    assert {stamp.standing for stamp in stamps.values()} == {"passed"} and len(stamps) == len(SIZES)
    assert {stamp.reason for stamp in stamps.values()} == {"no memcheck: "}


async def test_only_the_best_are_examined(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "FINALISTS", 1)
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    held = await elites(bench, search)
    (finalist,) = [job.finalist for job in bench.answers.finals if isinstance(job, FinalJob)]
    assert len(held) == len(SIZES)
    assert next(elite for elite in held if elite.bundle == finalist).objective == max(e.objective for e in held)


async def test_who_fails_loses_the_cell_and_stays_in_its_history(bench: Workbench) -> None:
    wrong = identity(SIZES[1])
    bench.answers = Answers(final=lambda job: Outcome.OUT_OF_BOUNDS if job.finalist == wrong else Outcome.CORRECT)
    heard: list[object] = []
    bench.events.publish, publish = lambda event: (heard.append(event), publish(event)), bench.events.publish
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert [elite.bundle for elite in await elites(bench, search)] == [identity(SIZES[0])]
    placements = [(entry.bundle, entry.placement) for entry in await history(bench, search)]
    assert placements[-1] == (wrong, Placement.WITHDRAWN) and (wrong, Placement.NEW) in placements
    assert await outcomes(bench, search) == ["correct", "correct"], "what was found out before stays on record"
    (event,) = [event for event in heard if isinstance(event, EliteWithdrawn)]
    assert event.reason == "out_of_bounds: found under the sanitizer"
    examined = {event.standing: event.reason for event in heard if isinstance(event, EliteExamined)}
    assert examined == {"passed": "no memcheck: ", "failed": event.reason}


@pytest.mark.parametrize("again", [None, records.bundle(77)])
async def test_a_finalist_that_traces_otherwise_the_second_time_fails(bench: Workbench, again) -> None:
    own = seed(SIZES[0])
    answers = Answers(retraced=lambda source: again if source == own else records.bundle_from(source))
    bench.answers = answers
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert [elite.bundle for elite in await elites(bench, search)] == [identity(SIZES[1])]


async def test_a_finalist_that_another_toolchain_traces_keeps_its_cell(bench: Workbench) -> None:
    moved = records.bundle(77).model_copy(update={"toolchain": Toolchain(triton="3.9.0")})
    bench.answers = Answers(retraced=lambda source: moved)
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    held = await elites(bench, search)
    assert len(held) == len(SIZES)
    for stamp in (await finalists(bench.store, held)).values():
        assert stamp.standing == "not possible"
        assert "triton 3.9.0 traced it, and a release that named no toolchain before" in stamp.reason


async def test_what_cannot_be_examined_keeps_its_cell_and_says_so(bench: Workbench) -> None:
    bench.answers = Answers(final=lambda job: Outcome.WORKER_LOST)
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    held = await elites(bench, search)
    assert search.state is SearchState.DONE and len(held) == len(SIZES)
    assert {stamp.standing for stamp in (await finalists(bench.store, held)).values()} == {"not possible"}


async def test_an_equal_bundle_is_not_examined_twice(bench: Workbench) -> None:
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    before = len(bench.answers.finals)
    second = await bench.run(await bench.begin(id="search-2", evaluations=len(SIZES)))
    assert len(bench.answers.finals) == before
    assert await standings(bench, second) == ["passed"] * len(SIZES)


async def test_nothing_that_an_older_protocol_found_is_used_again(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    answers, done = bench.answers, (len(bench.answers.finals), len(bench.answers.seen))
    for using in (assignments, jobs, module):
        monkeypatch.setattr(using, "PROTOCOL_VERSION", PROTOCOL_VERSION + 1)
    second = await bench.run(await bench.begin(id="search-2", evaluations=len(SIZES)))
    assert len(await elites(bench, second)) == len(SIZES)
    assert (len(answers.finals), len(answers.seen)) == tuple(2 * count for count in done)


@pytest.fixture
def reaching(bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranges of the operator reach to indices that count as beyond 2^31, at their end."""
    monkeypatch.setattr(operators, "FAR", 8191)


FAR_DIMS = {"N": 8192}


def examined(bench: Workbench) -> list[FinalJob]:
    return [job for job in bench.answers.finals if isinstance(job, FinalJob)]


@pytest.mark.usefixtures("reaching")
async def test_a_finalist_on_a_card_meets_one_shape_with_indices_beyond_2_to_the_31(bench: Workbench) -> None:
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    for job in bench.answers.finals:
        shapes = job.shapes if isinstance(job, TraceJob) else [plan.shape for plan in job.bundle.plans]
        assert (shapes[-1].dims, shapes[-1].role) == (FAR_DIMS, ShapeRole.RANDOM)
    assert [job.unreached for job in examined(bench)] == [""] * len(SIZES)


@pytest.mark.usefixtures("reaching")
@pytest.mark.parametrize("outcome", [Outcome.PLAN_REJECTED, Outcome.TRACE_TIMEOUT, Outcome.WORKER_LOST])
async def test_what_cannot_be_traced_at_so_large_a_shape_is_examined_without_it(
    bench: Workbench, outcome: Outcome
) -> None:
    class Cramped(Answers):
        def _traced(self, job: TraceJob) -> TraceReport:
            report = super()._traced(job)
            if job.shapes[-1].dims != FAR_DIMS:
                return report
            return report.model_copy(update={"outcome": outcome, "reason": "too large", "variants": ()})

    bench.answers = Cramped()
    search = await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert [job.unreached for job in examined(bench)] == ["its plan for N=8192 could not be traced"] * len(SIZES)
    assert len([job for job in bench.answers.finals if isinstance(job, TraceJob)]) == 2 * len(SIZES)
    stamps = await finalists(bench.store, await elites(bench, search))
    assert [stamp.standing for stamp in stamps.values()] == ["passed"] * len(SIZES)


@pytest.mark.usefixtures("reaching")
async def test_an_interpreter_is_not_asked_for_so_large_a_shape(bench: Workbench) -> None:
    bench.devices = (records.DEVICE,)
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert {job.unreached for job in examined(bench)} == {"an interpreter would take hours for N=8192"}
    assert all(plan.shape.dims != FAR_DIMS for job in examined(bench) for plan in job.bundle.plans)


async def test_where_the_ranges_do_not_reach_so_far_the_examination_says_so(bench: Workbench) -> None:
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert {job.unreached for job in examined(bench)} == {module.OUT_OF_RANGE}


async def test_shapes_that_a_search_has_by_itself_are_far_enough(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operators, "FAR", 4095)
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    assert {job.unreached for job in examined(bench)} == {module.MET_BEFORE}


def let_lead(monkeypatch: pytest.MonkeyPatch, seconds: float = 0.0) -> None:
    """Let an elite lead for long enough after that many seconds."""
    monkeypatch.setattr(module, "LEADS_S", seconds)
    monkeypatch.setattr(module, "LOOK_S", 0.0)


async def until_elites(bench: Workbench, search: SearchRecord) -> SearchRecord:
    """Run a search until all its seeds hold their cells; it then goes on."""
    for _ in range(40):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
        search = await bench.store.searches.get(search.id)
        if search.state is SearchState.RUNNING and len(await elites(bench, search)) == len(SIZES):
            return search
    raise AssertionError("not all seeds hold a cell")


def endless(bench: Workbench) -> None:
    """Keep searches running: nothing is proposed, and none is done."""
    supply = bench.evolution._proposing

    async def propose_nothing(*asked: object) -> Filled:
        return Filled()

    supply.supply = propose_nothing  # type: ignore[method-assign]


async def test_leaders_are_examined_beside_the_search_one_at_a_time_the_best_first(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_lead(monkeypatch, 3600.0)
    endless(bench)
    bench.answers.speedup = lambda job: 2.0 if bundle_of(job).identity == identity(SIZES[1]) else 1.0
    search = await until_elites(bench, await bench.begin(evaluations=40))
    let_lead(monkeypatch)
    monkeypatch.setattr(module, "LEADS_SHARE", 0.0)
    for _ in range(6):
        await bench.evolution.tick()
        finals = [job for job in await bench.dispatcher.outstanding(search.id) if jobs.is_final(job)]
        assert len(finals) <= 1
        await asyncio.to_thread(bench.work, 1)
    examined = [job.finalist for job in bench.answers.finals if isinstance(job, FinalJob)]
    assert examined == [identity(SIZES[1]), identity(SIZES[0])]
    assert (await bench.store.searches.get(search.id)).state is SearchState.RUNNING
    assert await examination_progress(bench.store, search) == ExaminationProgress(2, 2)


async def test_an_elite_must_hold_its_cell_for_long_enough_before_it_is_examined_early(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_lead(monkeypatch, 3600.0)
    endless(bench)
    search = await until_elites(bench, await bench.begin(evaluations=40))
    for _ in range(3):
        await bench.evolution.tick()
    assert bench.answers.finals == [] and not bench.evolution.finals.awaits(search.id)
    let_lead(monkeypatch)
    await bench.store.searches.count_time([search.id], 7_200_000)
    await bench.evolution.tick()
    assert not bench.evolution.finals.awaits(search.id), "of two hours it has led for seconds"
    monkeypatch.setattr(module, "LEADS_SHARE", 0.0)
    await bench.evolution.tick()
    assert bench.evolution.finals.awaits(search.id)


async def test_time_without_a_coordinator_does_not_count(
    bench: Workbench, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_lead(monkeypatch, 0.4)
    monkeypatch.setattr(module, "LEADS_SHARE", 0.0)
    endless(bench)
    search = await until_elites(bench, await bench.begin(evaluations=40))
    await asyncio.sleep(0.5)
    later = Workbench.over(bench.store, redis_url)
    finals, operator = later.evolution.finals, records.OPERATOR
    await finals.examine_leaders(search, operator)
    assert not finals.awaits(search.id), "it has led for long enough by its place, and not since the restart"
    await asyncio.sleep(0.5)
    await finals.examine_leaders(search, operator)
    assert finals.awaits(search.id)
    await later.dispatcher.close()


async def test_a_leader_that_fails_beside_the_search_loses_its_cell_and_another_may_take_it(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_lead(monkeypatch)
    monkeypatch.setattr(module, "LEADS_SHARE", 0.0)
    endless(bench)
    wrong = identity(SIZES[1])
    bench.answers.final = lambda job: Outcome.OUT_OF_BOUNDS if job.finalist == wrong else Outcome.CORRECT
    search = await until_elites(bench, await bench.begin(evaluations=40))
    for _ in range(10):
        await bench.evolution.tick()
        await asyncio.to_thread(bench.work)
    assert [elite.bundle for elite in await elites(bench, search)] == [identity(SIZES[0])]
    assert await examination_progress(bench.store, search) == ExaminationProgress(1, 1)


async def test_an_elite_that_was_examined_beside_the_search_is_not_examined_again(
    bench: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    let_lead(monkeypatch)
    search = await bench.run(await bench.begin(evaluations=len(SIZES) + 4))
    examined = [job.finalist for job in bench.answers.finals if isinstance(job, FinalJob)]
    assert len(examined) == len(set(examined))
    assert await standings(bench, search) == ["passed"] * len(await elites(bench, search))


async def test_lost_examinations_are_ordered_again(bench: Workbench) -> None:
    search = await bench.begin(evaluations=len(SIZES))
    finals = bench.evolution.finals
    for _ in range(200):
        await bench.evolution.tick()
        if finals.awaits(search.id):
            break
        bench.work(most=1)
    await bench.dispatcher.cancel(search.id)
    await bench.evolution.sweep(await bench.store.searches.get(search.id))
    ended = await bench.run(search)
    assert await standings(bench, ended) == ["passed"] * len(SIZES)


async def test_devices_without_a_card_get_few_and_small_shapes(bench: Workbench) -> None:
    bench.devices = (records.DEVICE,)
    await bench.run(await bench.begin(evaluations=len(SIZES)))
    trace = next(job for job in bench.answers.finals if isinstance(job, TraceJob))
    assert 3 < len([shape for shape in trace.shapes if shape.role is ShapeRole.RANDOM]) <= INTERPRETED_SHAPES
    examined = next(job for job in bench.answers.finals if isinstance(job, FinalJob))
    assert examined.source == trace.source
