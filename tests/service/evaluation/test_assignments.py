"""A bundle gets one job of each kind, however many candidates come to it, and whoever it was about."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from archive.records import Placement, SearchState
from service.evaluation.jobs import measure_id, trace_job
from tests.service import records
from tests.service.measured import DEVICE, elites, history, identity, outcomes, plant, seed
from tests.service.workbench import Answers, Workbench, bundle_of
from workers.protocol import Bundle, ConfirmJob, MeasureJob, Outcome

FIRST, SECOND, TWIN = 10, 15, 20
"""Sizes of seeds in one cell; the second and its twin come to the same bundle."""


def bundle(source: str) -> Bundle:
    return records.bundle_from(seed(SECOND) if source == seed(TWIN) else source)


@pytest.fixture
async def card(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    plant(monkeypatch, FIRST, SECOND, TWIN)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()


def faster(job: MeasureJob | ConfirmJob) -> float:
    return 1.5 if bundle_of(job).identity == identity(SECOND) else 1.0


async def test_twins_are_measured_and_confirmed_once(card: Workbench) -> None:
    card.answers = Answers(bundle=bundle, speedup=faster, rival=lambda job: 1.5)
    search = await card.run(await card.begin(evaluations=3))
    for kind in (MeasureJob, ConfirmJob):
        assert [bundle_of(job).identity for job in card.judged(kind)] == [identity(FIRST), identity(SECOND)]
    assert await outcomes(card, search) == ["correct"] * 3
    assert [elite.bundle for elite in await elites(card, search)] == [identity(SECOND)]


async def test_a_twin_does_not_challenge_its_own_bundle(card: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch, SECOND, TWIN)
    lucky = {MeasureJob: 1.2, ConfirmJob: 1.0}
    card.answers = Answers(bundle=bundle, speedup=lambda job: lucky[type(job)], rival=lambda job: 1.5)
    search = await card.run(await card.begin(evaluations=2))
    assert len(card.judged(MeasureJob)) == len(card.judged(ConfirmJob)) == 1
    placements = [entry.placement for entry in await history(card, search)]
    assert placements == [Placement.PROVISIONAL, Placement.NEW] and await outcomes(card, search) == ["correct"] * 2


async def test_a_bundle_gets_one_try_against_an_incumbent(card: Workbench) -> None:
    card.answers = Answers(bundle=bundle, speedup=faster, rival=lambda job: 1.0)
    search = await card.run(await card.begin(evaluations=3))
    assert len(card.judged(ConfirmJob)) == 2, "the twin is not a second chance"
    placements = [entry.placement for entry in await history(card, search)]
    assert placements[2:] == [Placement.PROVISIONAL, Placement.REJECTED]
    assert await outcomes(card, search) == ["correct"] * 3


async def test_what_was_found_wrong_is_wrong_for_its_twin_in_a_later_search(card: Workbench) -> None:
    wrong = {(ConfirmJob, identity(SECOND))}
    card.answers = Answers(
        bundle=bundle,
        speedup=faster,
        outcome=lambda job: Outcome.OUT_OF_BOUNDS if (type(job), bundle_of(job).identity) in wrong else Outcome.CORRECT,
    )
    search = await card.run(await card.begin(evaluations=3))
    assert await outcomes(card, search) == ["correct", "out_of_bounds", "out_of_bounds"]
    asked = len(card.answers.seen)
    again = await card.run(await card.begin(evaluations=3, id="search-2"))
    assert again.state is SearchState.DONE
    assert await outcomes(card, again) == ["correct", "out_of_bounds", "out_of_bounds"]
    assert len(card.answers.seen) == asked + 2, "but for the reference and its mutation testing all is known"
    assert [elite.bundle for elite in await elites(card, again)] == [identity(FIRST)]


async def test_on_a_model_the_first_seed_and_its_twin_are_judged_once(
    card: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, SECOND, TWIN)
    card.devices, card.answers = (records.DEVICE,), Answers(bundle=bundle)
    search = await card.run(await card.begin(evaluations=2))
    assert len(card.judged(MeasureJob)) == 1 and await outcomes(card, search) == ["correct"] * 2


async def test_a_source_that_cannot_be_interpreted_says_nothing_of_its_twins(card: Workbench) -> None:
    stopped = {seed(SECOND)}
    card.devices = (records.DEVICE,)
    card.answers = Answers(
        bundle=bundle,
        outcome=lambda job: Outcome.NOT_INTERPRETABLE if job.source in stopped else Outcome.CORRECT,
    )
    search = await card.run(await card.begin(evaluations=3))
    assert await outcomes(card, search) == ["correct", "not_interpretable", "correct"]
    assert [job.source for job in card.judged(MeasureJob)] == [seed(FIRST), seed(SECOND), seed(TWIN)]


async def test_a_twin_of_the_first_seed_waits_for_that_ones_verdict(
    card: Workbench, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch, SECOND, TWIN)
    card.devices, card.answers = (records.DEVICE,), Answers(bundle=bundle)
    search = await card.begin(evaluations=2)
    while len(await card.store.candidates.list(search.id)) < 2 or not search.graphs:
        await card.evolution.tick()
        card.work(most=1)
        search = await card.store.searches.get(search.id)
    verdicts = card.evolution.verdicts
    twin, first = await card.store.candidates.list(search.id)
    for candidate in (twin, first):
        traced = card.answers.to(trace_job(search, records.OPERATOR, candidate))
        await verdicts.apply_trace(search, records.OPERATOR, traced)
    await verdicts.unit_of_work.commit()
    waiting = await card.dispatcher.outstanding(search.id)
    assert measure_id(first.id, 0, records.DEVICE) in waiting and measure_id(twin.id, 0, records.DEVICE) not in waiting
    assert (await card.run(search)).state is SearchState.DONE
    assert [job.source for job in card.judged(MeasureJob)] == [first.source]
