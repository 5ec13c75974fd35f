"""What a report means: variants, verdicts, baselines; a report may come twice and a bundle may be asked for twice."""

import math
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from archive.records import EMPTY_CELL, CandidateState, Placement, SearchRecord, SearchState
from service.evaluation.jobs import confirm_id, measure_id, reference_job, retrace_id
from service.events import EliteWithdrawn, Event
from tests.service import records
from tests.service.measured import DEVICE, FIRST, SECOND, elites, history, identity, outcomes, plant
from tests.service.records import TUNABLE
from tests.service.workbench import Answers, Judging, Workbench, bundle_of
from workers.protocol import (
    ConfirmJob,
    Graph,
    InputRef,
    MeasureJob,
    MutationReport,
    Node,
    Outcome,
    TraceReport,
)

THIRD, ELSEWHERE = 20, 11
"""Sizes of seeds: one in the cell of FIRST and SECOND, one outside."""


def times_better(better: dict[int, float], confirmed: float = 1.0) -> Callable[[Judging], float]:
    """Speedups by size of seed, times `confirmed` when measured for the second time."""
    known = {identity(size): speedup for size, speedup in better.items()}
    return lambda job: known[bundle_of(job).identity] * (confirmed if isinstance(job, ConfirmJob) else 1.0)


@pytest.fixture
async def bench(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    monkeypatch.setattr(records, "OPERATOR", records.OPERATOR.model_copy(update={"seeds": (TUNABLE,)}))
    bench = await Workbench.open(tmp_path, redis_url)
    yield bench
    await bench.close()


async def _ended(bench: Workbench, evaluations: int = 3) -> SearchRecord:
    return await bench.run(await bench.begin(evaluations=evaluations))


async def test_the_baseline_is_the_first_seeds_time(bench: Workbench) -> None:
    seed = records.bundle_from(TUNABLE).identity
    bench.answers = Answers(time_us=lambda bundle: 12.5 if bundle == seed else 5.0)
    search = await _ended(bench)
    reference_seed = bench.evolution.verdicts.reference_seed
    assert await reference_seed.baseline_us(search, records.DEVICE) == {"N=1024": 12.5, "N=4096": 12.5}
    assert await reference_seed.baseline_us(search, "h200") == {}


async def test_a_verdict_carries_the_objective_and_the_report_stays_readable(bench: Workbench) -> None:
    search = await _ended(bench)
    for candidate in await bench.store.candidates.list(search.id):
        documents = [
            text for text in await bench.store.reports.of_candidate(candidate.id) if '"kind":"final"' not in text
        ]
        assert candidate.state is CandidateState.JUDGED and candidate.outcome == Outcome.CORRECT
        assert len(documents) == 1 and measure_id(candidate.id, 0, records.DEVICE) in documents[0]


async def test_jobs_that_wait_in_the_queue_are_not_sent_again(bench: Workbench) -> None:
    search = await bench.begin(evaluations=3)
    for _ in range(3):
        await bench.evolution.tick()
        bench.work(most=1)
    await bench.evolution.tick()
    waiting = await bench.dispatcher.outstanding(search.id)
    await bench.evolution.sweep(await bench.store.searches.get(search.id))
    assert await bench.dispatcher.outstanding(search.id) == waiting
    bench.work()
    measured = [job.id for job in bench.answers.seen if isinstance(job, MeasureJob)]
    assert len(measured) == len(set(measured))


async def test_a_report_about_nothing_we_know_is_let_go(bench: Workbench) -> None:
    search = await _ended(bench)
    job = next(job for job in bench.answers.seen if isinstance(job, MeasureJob))
    await bench.dispatcher.submit(job.model_copy(update={"candidate": "nobody", "id": "nobody:0"}))
    bench.work()
    await bench.evolution.tick()
    assert len(await bench.store.candidates.list(search.id)) == 3
    assert await bench.dispatcher.outstanding(search.id) == set()


@pytest.mark.parametrize(
    ("verdict", "state"), [("failed", "failed"), ("passed", "preparing"), ("untried", "preparing")]
)
async def test_an_operator_that_nothing_can_be_judged_by_ends_its_search(
    bench: Workbench, verdict: str, state: str
) -> None:
    search = await bench.begin(evaluations=3)
    reference = bench.answers.to(reference_job(search, records.OPERATOR))
    assert isinstance(reference, TraceReport) and reference.graphs
    gate = MutationReport.model_validate({"verdict": verdict, "reason": "the checks take 'zeros' for right"})
    await bench.evolution.preparation.apply(search, records.OPERATOR, reference.model_copy(update={"gate": gate}))
    search = await bench.store.searches.get(search.id)
    assert search.state.value == state
    assert bool(search.graphs) == (state != "failed")
    kept = await bench.store.operators.mutation_report(search.operator)
    assert (kept.verdict, MutationReport.model_validate_json(kept.document)) == (verdict, gate)
    said = "the operator is not admitted: the checks take 'zeros' for right. `--admit`"
    assert search.reason.startswith(said) == (state == "failed")


async def test_a_reference_that_masks_with_infinities_is_kept_as_it_is(bench: Workbench) -> None:
    search = await bench.begin(evaluations=3)
    reference = bench.answers.to(reference_job(search, records.OPERATOR))
    assert isinstance(reference, TraceReport)
    masked = Node(op="aten.masked_fill.Scalar", args=(InputRef(input=0), InputRef(input=0), -math.inf))
    graphs = tuple(graph.model_copy(update={"nodes": (*graph.nodes, masked)}) for graph in reference.graphs)
    await bench.evolution.preparation.apply(search, records.OPERATOR, reference.model_copy(update={"graphs": graphs}))
    search = await bench.store.searches.get(search.id)
    assert tuple(Graph.model_validate(graph) for graph in search.graphs) == graphs


async def test_an_empty_cell_is_won_by_being_correct_twice(card: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, FIRST)
    card.answers = Answers(speedup=times_better({FIRST: 1.5}, confirmed=0.9))
    search = await card.run(await card.begin(evaluations=1))
    [confirm] = card.judged(ConfirmJob)
    assert confirm.id == confirm_id(confirm.candidate, 0, DEVICE, EMPTY_CELL) and confirm.incumbent is None
    [elite] = await elites(card, search)
    assert (elite.bundle, elite.job, elite.revision) == (identity(FIRST), confirm.id, 1)
    assert (elite.objective, elite.mid) == pytest.approx((0.98 * 1.5 * 0.9, 1.5 * 0.9)), "the confirm's own figures"
    [candidate] = await card.store.candidates.list(search.id)
    assert candidate.objective == elite.objective
    assert candidate.objectives == {elite.device: elite.objective}


async def test_a_better_challenger_is_confirmed_against_the_incumbent_and_takes_over(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.3}), rival=lambda job: 1.25)
    search = await card.run(await card.begin(evaluations=2))
    confirm = card.judged(ConfirmJob)[-1]
    assert confirm.incumbent is not None and confirm.incumbent.identity == identity(FIRST)
    assert confirm.challenger.identity == identity(SECOND) and confirm.id.endswith(f":confirm:{identity(FIRST)}")
    [elite] = await elites(card, search)
    assert (elite.bundle, elite.objective, elite.revision) == (identity(SECOND), pytest.approx(0.98 * 1.3), 2)
    assert [entry.placement for entry in await history(card, search)] == [
        *(Placement.PROVISIONAL, Placement.NEW),
        *(Placement.PROVISIONAL, Placement.IMPROVED),
    ]


async def test_whoever_would_not_win_is_not_confirmed(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.0}))
    search = await card.run(await card.begin(evaluations=2))
    assert [job.challenger.identity for job in card.judged(ConfirmJob)] == [identity(FIRST)]
    assert await outcomes(card, search) == ["correct", "correct"]


async def test_a_challenger_within_the_margin_does_not_take_over(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.3}), rival=lambda job: 1.004)
    search = await card.run(await card.begin(evaluations=2))
    assert len(card.judged(ConfirmJob)) == 2 and search.state is SearchState.DONE
    assert [elite.bundle for elite in await elites(card, search)] == [identity(FIRST)]
    assert await outcomes(card, search) == ["correct", "correct"]
    assert [entry.placement for entry in await history(card, search)][2:] == [
        *(Placement.PROVISIONAL, Placement.REJECTED)
    ], "it gives back what it held"
    assert await card.store.provisional.list(search.id, DEVICE, 1) == []


async def measured(card: Workbench, search: SearchRecord, size: int) -> None:
    """Work one job at a time until a seed holds its cell provisionally."""
    for _ in range(60):
        await card.evolution.tick()
        held = await card.store.provisional.list(search.id, DEVICE, 1)
        if identity(size) in {holder.bundle for holder in held}:
            return
        card.work(most=1)
    raise AssertionError("it never held its cell")


async def test_when_the_incumbent_changed_meanwhile_the_challenger_meets_the_new_one(
    card: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, FIRST, SECOND, THIRD)
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.2, THIRD: 1.4}), rival=lambda job: 1.1)
    search = await card.begin(evaluations=3)
    await measured(card, search, THIRD)
    [holder] = await card.store.provisional.list(search.id, DEVICE, 1)
    assert holder.bundle == identity(THIRD)
    search = await card.run(search)
    met = [(bundle_of(job).identity, job.incumbent and job.incumbent.identity) for job in card.judged(ConfirmJob)]
    assert met[0] == (identity(FIRST), None) and met[-1][0] == identity(THIRD)
    placements = [(entry.bundle, entry.placement) for entry in await history(card, search)]
    assert placements[-1] == (identity(THIRD), Placement.IMPROVED)
    assert [elite.bundle for elite in await elites(card, search)] == [identity(THIRD)]
    assert await outcomes(card, search) == ["correct"] * 3


async def test_a_challenger_is_held_to_what_its_confirm_found(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.4}, confirmed=0.9), rival=lambda job: 1.1)
    search = await card.run(await card.begin(evaluations=2))
    [elite] = await elites(card, search)
    assert (elite.bundle, elite.mid) == (identity(SECOND), pytest.approx(1.4 * 0.9))
    assert max(each.objective or 0 for each in await card.store.candidates.list(search.id)) == elite.objective


async def test_a_provisional_holder_earns_nothing_and_is_no_best(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.4}), rival=lambda job: 1.1)
    search = await card.begin(evaluations=2)
    await measured(card, search, SECOND)
    best = await card.store.elites.best(search.id, DEVICE)
    progress = await card.store.elites.progress(search.id, DEVICE, 240)
    assert best is not None and best.bundle == identity(FIRST) and progress.best == best.objective
    assert progress.emitters["seed"]["promotions"] == 1
    [parent] = await card.store.elites.holders(search.id, DEVICE, 1)
    assert parent.bundle == identity(SECOND), "it may be a parent"
    search = await card.run(search)
    progress = await card.store.elites.progress(search.id, DEVICE, 240)
    assert progress.emitters["seed"]["promotions"] == 2


async def test_a_confirm_that_finds_a_holder_wrong_gives_its_cell_back_and_says_so(card: Workbench) -> None:
    heard: list[Event] = []
    card.events.route(heard.append)
    wrong = {(ConfirmJob, identity(SECOND)): Outcome.NONDETERMINISTIC}
    card.answers = Answers(
        speedup=times_better({FIRST: 1.0, SECOND: 1.3}),
        outcome=lambda job: wrong.get((type(job), bundle_of(job).identity), Outcome.CORRECT),
    )
    search = await card.run(await card.begin(evaluations=2))
    [event] = [event for event in heard if isinstance(event, EliteWithdrawn)]
    assert event.provisional and event.reason.startswith("nondeterministic")
    assert (await history(card, search))[-1].placement is Placement.WITHDRAWN
    assert await card.store.provisional.list(search.id, DEVICE, 1) == []


async def test_a_challenger_that_turns_out_wrong_is_not_placed(card: Workbench) -> None:
    wrong = {(ConfirmJob, identity(SECOND)): Outcome.NONDETERMINISTIC}
    card.answers = Answers(
        speedup=times_better({FIRST: 1.0, SECOND: 1.3}),
        rival=lambda job: 1.3,
        outcome=lambda job: wrong.get((type(job), bundle_of(job).identity), Outcome.CORRECT),
    )
    search = await card.run(await card.begin(evaluations=2))
    assert [elite.bundle for elite in await elites(card, search)] == [identity(FIRST)]
    assert await outcomes(card, search) == ["correct", "nondeterministic"]
    assert [candidate.objective for candidate in await card.store.candidates.list(search.id, limit=1)] == [None]


async def test_a_wrong_confirm_revises_the_verdict_before_the_second_trace_comes(card: Workbench) -> None:
    wrong = {(ConfirmJob, identity(SECOND)): Outcome.WRONG_RESULT}
    card.answers = Answers(
        speedup=times_better({FIRST: 1.0, SECOND: 1.3}),
        outcome=lambda job: wrong.get((type(job), bundle_of(job).identity), Outcome.CORRECT),
    )
    search = await card.begin(evaluations=2)
    while not any(bundle_of(job).identity == identity(SECOND) for job in card.judged(ConfirmJob)):
        await card.evolution.tick()
        later = {retrace_id(each.id) for each in await card.store.candidates.list(search.id) if each.ordinal == 1}
        card.work(but=later)
    await card.evolution.tick()
    assert await outcomes(card, search) == ["correct", "wrong_result"], "a loss of the queue changes nothing any more"
    assert (await history(card, search))[-1].placement is Placement.WITHDRAWN


async def test_a_lost_confirm_places_nobody_and_says_nothing_about_the_kernel(card: Workbench) -> None:
    lost = {(ConfirmJob, identity(SECOND)): Outcome.WORKER_LOST}
    card.answers = Answers(
        speedup=times_better({FIRST: 1.0, SECOND: 1.3}),
        outcome=lambda job: lost.get((type(job), bundle_of(job).identity), Outcome.CORRECT),
    )
    search = await card.run(await card.begin(evaluations=2))
    assert [elite.bundle for elite in await elites(card, search)] == [identity(FIRST)]
    assert await outcomes(card, search) == ["correct", "correct"]


async def test_without_a_figure_nothing_is_offered(card: Workbench) -> None:
    card.answers = Answers(speedup=lambda job: None)
    search = await card.run(await card.begin(evaluations=2))
    assert await elites(card, search) == [] and card.judged(ConfirmJob) == []
    assert await outcomes(card, search) == ["correct", "correct"]


async def test_a_candidate_is_judged_when_its_confirm_is_in(card: Workbench) -> None:
    card.answers = Answers(speedup=times_better({FIRST: 1.0, SECOND: 1.3}))
    search = await card.begin(evaluations=2)
    while not card.judged(MeasureJob):
        await card.evolution.tick()
        card.work(most=1)
    await card.evolution.tick()
    assert (await card.store.candidates.count(search.id)).evaluated == 0
    card.work(most=1)
    await card.evolution.tick()
    assert len(card.judged(ConfirmJob)) == 1 and await elites(card, search) == [], "its trace is repeated beside it"
    assert (await card.store.candidates.count(search.id)).evaluated == 0
    card.work(most=3)  # Mutation testing and the second seed's trace are between them.
    await card.evolution.tick()
    assert len(await elites(card, search)) == (await card.store.candidates.count(search.id)).evaluated == 1


async def test_cells_are_contested_apart(card: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, FIRST, ELSEWHERE)
    card.answers = Answers(speedup=times_better({FIRST: 2.0, ELSEWHERE: 0.5}))
    search = await card.run(await card.begin(evaluations=2))
    assert {elite.bundle for elite in await elites(card, search)} == {identity(FIRST), identity(ELSEWHERE)}
    assert [job.incumbent for job in card.judged(ConfirmJob)] == [None, None]


async def test_a_seed_that_is_wrong_on_the_card_ends_the_search(card: Workbench) -> None:
    card.devices = (records.DEVICE, DEVICE)
    card.answers = Answers(
        outcome=lambda job: Outcome.DEVICE_FAULT if job.device.name == DEVICE else Outcome.CORRECT,
    )
    search = await card.run(await card.begin(evaluations=2))
    assert search.state is SearchState.FAILED and "not correct on h200 (device_fault)" in search.reason
    measured = [job for job in card.judged(MeasureJob) if job.device.measures]
    assert {bundle_of(job).identity for job in measured} == {identity(FIRST)}


async def test_models_and_cards_share_a_search_and_no_archive(card: Workbench) -> None:
    card.devices = (records.DEVICE, DEVICE)
    card.answers = Answers(speedup=times_better({FIRST: 1.5, SECOND: 1.0}))
    search = await card.run(await card.begin(evaluations=2))
    predicted = await card.store.elites.list(search.id, records.DEVICE, 1)
    assert [elite.objective for elite in predicted] == [pytest.approx(1.0)]
    assert [elite.objective for elite in await elites(card, search)] == [pytest.approx(0.98 * 1.5)]
    candidates = {candidate.id: candidate for candidate in await card.store.candidates.list(search.id)}
    for elite in [*predicted, *await elites(card, search)]:
        assert candidates[elite.candidate].objectives[elite.device] == elite.objective
    assert all(candidate.objective == pytest.approx(1.0) for candidate in candidates.values()), "the first device's"
    assert {job.device.name for job in card.judged(ConfirmJob)} == {DEVICE}
