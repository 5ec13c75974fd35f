"""Mutation testing of a search's operator: beside the first seeds, before the first proposal."""

from dataclasses import replace

from archive.records import SearchState
from service.evaluation.activity import describe_activity
from service.evaluation.admissions import ADMIT, NOT_ADMITTED, Admissions, is_admitted
from service.evaluation.jobs import admission_id, admission_job, reference_id, trace_id
from tests.service import records
from tests.service.workbench import Workbench
from workers.protocol import MeasureJob, MutationReport, TraceJob, TraceReport


async def test_seeds_are_judged_meanwhile_and_nothing_is_proposed(card: Workbench) -> None:
    search = await card.begin(evaluations=5)
    for _ in range(6):
        await card.evolution.tick()
        card.work(but=[admission_id(search.id)])
    counts = await card.store.candidates.count(search.id)
    seeds = len(records.OPERATOR.seeds)
    assert card.judged(MeasureJob) and (counts.candidates, counts.in_flight) == (seeds, 0)
    assert admission_id(search.id) in await card.dispatcher.outstanding(search.id)
    search = await card.store.searches.get(search.id)
    assert search.state is SearchState.PREPARING
    assert await describe_activity(card.store, card.dispatcher, search) == "testing the operator's checks"
    assert not await is_admitted(card.store, search)
    assert (await card.run(search)).state is SearchState.DONE
    assert await is_admitted(card.store, search)


async def test_traces_do_not_wait_for_the_reference_but_verdicts_do(card: Workbench) -> None:
    search = await card.begin(evaluations=5)
    for _ in range(4):
        await card.evolution.tick()
        card.work(but=[reference_id(search.id), admission_id(search.id)])
    first, *_ = await card.store.candidates.list(search.id)
    assert trace_id(first.id) in {job.id for job in card.judged(TraceJob)} and not card.judged(MeasureJob)
    ended = await card.run(search)
    assert ended.state is SearchState.DONE and ended.graphs and card.judged(MeasureJob)


async def test_a_lost_job_is_sent_again(card: Workbench) -> None:
    search = await card.begin(evaluations=5)
    for _ in range(2):
        await card.evolution.tick()
    assert admission_id(search.id) in await card.dispatcher.outstanding(search.id)
    await card.dispatcher.cancel(search.id)
    await card.evolution.sweep(await card.store.searches.get(search.id))
    await card.evolution.tick()
    assert admission_id(search.id) in await card.dispatcher.outstanding(search.id)


async def test_an_older_report_admits_no_later_search(card: Workbench) -> None:
    assert (await card.run(await card.begin(evaluations=3))).state is SearchState.DONE
    again = await card.begin(evaluations=3, id="search-2")
    assert not await is_admitted(card.store, again), "the checks may have changed since"


async def test_a_failed_operator_goes_on_if_asked_to_and_is_marked(card: Workbench) -> None:
    search = await card.begin(evaluations=3)
    other = await card.begin(evaluations=3, id="search-2")
    report = card.answers.to(admission_job(search, records.OPERATOR))
    assert isinstance(report, TraceReport)
    gate = MutationReport(verdict="failed", reason="the checks take 'zeros' for right")
    failed = report.model_copy(update={"gate": gate})
    admissions = Admissions(card.store, card.dispatcher, card.evolution.verdicts)
    await admissions.apply(replace(search, admit=True), records.OPERATOR, failed)
    found = await card.store.searches.get(search.id)
    assert (found.state, found.admitted) == (SearchState.PREPARING, gate.reason)
    assert await is_admitted(card.store, found)
    assert not await is_admitted(card.store, other), "the report was about another search, and failed"
    await admissions.apply(other, records.OPERATOR, failed)
    found = await card.store.searches.get(other.id)
    assert (found.state, found.reason) == (SearchState.FAILED, f"{NOT_ADMITTED}: {gate.reason}. {ADMIT}")
