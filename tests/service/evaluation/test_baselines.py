"""Baselines come beside the search: cells are filled before them, and all objectives turn once."""

from pathlib import Path

import pytest

from archive.records import SearchState
from tests.service import records
from tests.service.evaluation.test_verdicts import times_better
from tests.service.measured import DEVICE, FIRST, SECOND, elites, history, identity
from tests.service.workbench import Answers, Workbench
from workers.protocol import Job, MeasureJob, Report, Trust


def waits_for_baselines(job: Job) -> bool:
    """True for the job that relates a search which would end without baselines."""
    return isinstance(job, MeasureJob) and job.waits_for_baselines


async def test_cells_are_filled_before_the_baselines_are_known_and_their_objectives_turned_later(
    card: Workbench,
) -> None:
    faster = times_better({FIRST: 1.0, SECOND: 1.2})
    card.answers = Answers(
        speedup=faster, rival=lambda job: 1.1, baselines=lambda job: 0.5 if waits_for_baselines(job) else None
    )
    search = await card.run(await card.begin(evaluations=2))
    assert [type(job) for job in card.answers.seen if waits_for_baselines(job)] == [MeasureJob], "asked for at the end"
    assert search.baselines[DEVICE].mid == 0.5
    (elite,) = await elites(card, search)
    assert (elite.bundle, elite.mid) == (identity(SECOND), pytest.approx(0.6))
    assert (elite.objective, elite.low) == (pytest.approx(0.98 * 0.6), pytest.approx(0.98 * 0.6))
    assert [entry.mid for entry in await history(card, search)] == pytest.approx([0.5, 0.5, 0.6, 0.6])
    judged = {each.digest: each for each in await card.store.candidates.list(search.id)}.values()
    assert sorted(each.objective or 0 for each in judged) == [pytest.approx(0.49), pytest.approx(0.98 * 0.6)]
    assert all(each.objectives == {DEVICE: each.objective} for each in judged)
    progress = await card.store.elites.progress(search.id, DEVICE, 240)
    (*_, last) = await card.store.views.milestones(search.id, DEVICE)
    assert progress.best == last.best == pytest.approx(0.98 * 0.6)


async def test_the_first_trusted_report_with_baselines_relates_a_search_once(card: Workbench) -> None:
    worth = iter((None, 0.5, 0.7, 0.9))
    card.answers = Answers(
        speedup=times_better({FIRST: 1.0, SECOND: 1.2}), rival=lambda job: 1.1, baselines=lambda job: next(worth)
    )
    search = await card.run(await card.begin(evaluations=2))
    assert search.baselines[DEVICE].mid == 0.5, "later ones change nothing"
    assert [elite.mid for elite in await elites(card, search)] == [pytest.approx(0.6)]
    assert not any(waits_for_baselines(job) for job in card.answers.seen)


async def test_without_any_baseline_a_search_ends_and_says_so(card: Workbench) -> None:
    card.answers = Answers(baselines=lambda job: None)
    search = await card.run(await card.begin(evaluations=2))
    assert search.state is SearchState.DONE
    assert search.baselines[DEVICE].reason == "no baseline runs this operator"
    assert [elite.mid for elite in await elites(card, search)] == [1.0], "over the pacer"


async def test_a_search_that_waits_for_baselines_asks_again_after_a_restart(
    card: Workbench, tmp_path: Path, redis_url: str
) -> None:
    card.answers = Answers(baselines=lambda job: None)
    search = await card.begin(evaluations=2)
    await card.evolution.tick()
    while not card.evolution.verdicts.baselines.awaits(search.id):
        card.work()
        await card.evolution.tick()
    again = await Workbench.open(tmp_path, redis_url)
    again.devices, again.answers = card.devices, Answers(baselines=lambda job: 0.5)
    ended = await again.run(search)
    await again.close()
    assert ended.state is SearchState.DONE and ended.baselines[DEVICE].mid == 0.5


async def test_an_untrusted_report_relates_nothing(card: Workbench) -> None:
    search = await card.begin(evaluations=2)
    while not card.judged(MeasureJob):
        await card.evolution.tick()
        card.work(most=1)
    told = card.answers.to(card.judged(MeasureJob)[0])
    case = next(each for each in await card.store.candidates.list(search.id))
    assert isinstance(told, Report) and case is not None
    verdicts = card.evolution.verdicts
    await verdicts.apply_report(
        await card.store.searches.get(search.id), records.OPERATOR, told.model_copy(update={"trust": Trust.C})
    )
    assert (await card.store.searches.get(search.id)).baselines == {}
