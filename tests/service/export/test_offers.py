"""Elites and seeds as they are offered for export: with the report that each rests on, and certificates read once."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from archive.grid import Grid
from service.api import builders
from service.errors import InvalidInput, NotFound
from service.export.offers import offer_of
from tests.service import records
from tests.service.certificates.evidence import certificate
from workers.protocol import Device, Outcome, Report


class Books:
    """A service that has one elite and perhaps a seed beside it, and counts what it is asked for."""

    def __init__(self, reports: int = 1, elites: int = 1, seeds: Mapping[str, Sequence[Report]] = {}) -> None:
        self.asked = 0
        self._elites = elites
        self._seeds = seeds
        report = records.report({"N=1024": 3.0}).model_dump(mode="json")
        summary = builders.candidate_of(replace(records.candidate(), objectives={}), (), ())
        self._candidate = summary.model_copy(update={"reports": (report, {**report, "job": "another"})[:reports]})

    async def elites(self, search, device=None):
        for _ in range(self._elites):
            yield builders.elite_of(records.search(), records.elite(), Grid(records.search().axes))

    async def candidates(self, search, *, emitter, device, sort):
        assert (emitter, device, sort) == ("seed", "model:sm_90", "-objective")
        for seed in self._seeds:
            yield self._candidate.model_copy(update={"id": seed})

    async def candidate(self, id):
        if id not in self._seeds:
            return self._candidate
        reports = tuple(report.model_dump(mode="json") for report in self._seeds[id])
        told = {"id": id, "source": id, "objectives": {"model:sm_90": 0.5}, "reports": reports}
        return self._candidate.model_copy(update=told)

    async def certificate(self, candidate, *, device=None, variant=None, source=True):
        assert (candidate, device, variant, source) == ("candidate-1", "model:sm_90", 0, True)
        self.asked += 1
        return certificate().model_dump(mode="json")


async def test_an_elite_comes_with_its_report_and_its_certificate() -> None:
    books = Books(reports=2)
    offer = await offer_of(books, "search-1", "model:sm_90")
    (contender,) = offer.contenders
    assert (contender.candidate, contender.variant, contender.objective) == ("candidate-1", 0, 1.25)
    assert contender.report.shapes[0].mid_us == 3.0
    assert await offer.certificate(contender) == await offer.certificate(contender) == certificate()
    assert books.asked == 1


async def test_seeds_that_lost_their_cell_are_offered_by_their_best_variant() -> None:
    slow, fast = (records.report({"N=1024": time_us}, variant=at) for at, time_us in enumerate((9.0, 6.0)))
    elsewhere = records.report({"N=1024": 1.0}, variant=2, device=Device.parse("h200"))
    wrong = records.report({}, variant=3, outcome=Outcome.WRONG_RESULT)
    seeds = {"candidate-1": [fast], "looped": [slow, fast, elsewhere, wrong], "broken": [wrong]}
    elite, seed = (await offer_of(Books(seeds=seeds), "search-1", "model:sm_90")).contenders
    assert (elite.candidate, seed.candidate, seed.variant, seed.objective) == ("candidate-1", "looped", 1, 0.5)
    assert (seed.report, seed.source) == (fast, "looped") and elite.source


async def test_without_elites_or_plans_there_is_nothing_to_offer() -> None:
    with pytest.raises(NotFound, match="no elite on model:sm_90"):
        await offer_of(Books(elites=0), "search-1", "model:sm_90")
    with pytest.raises(NotFound, match="no elite on"):
        await offer_of(Books(reports=0), "search-1", "model:sm_90")
    with pytest.raises(InvalidInput, match="holds no launch plans"):
        await offer_of(Books(), "search-1", "recorded:h200")
