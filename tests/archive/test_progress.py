"""Progress agrees with pyribs, on the same stream of offers."""

import random
import warnings
from typing import Any

import pytest

from archive.grid import Grid
from archive.progress import PROMOTED, PROPOSED, Filled, Tally, summarise
from archive.records import Placement
from archive.store import Store
from tests.archive.samples import AXES, DEVICE, offer, stored_candidate, stored_search

OFFERS = 150
STATUS = {0: Placement.REJECTED, 1: Placement.IMPROVED, 2: Placement.NEW}
"""What pyribs' `add` answers."""


@pytest.fixture
def ribs_archive() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        archives = pytest.importorskip("ribs.archives")
        dims = [axis.bins for axis in AXES]
        return archives.GridArchive(solution_dim=1, dims=dims, ranges=[(-0.5, bins - 0.5) for bins in dims])


async def test_placements_elites_and_statistics_are_those_of_pyribs(store: Store, ribs_archive: Any) -> None:
    rng, grid = random.Random(7), Grid(AXES)
    search = await stored_search(store)
    candidate = await stored_candidate(store, search.id)
    for serial in range(OFFERS):
        # Few values, so that ties are offered too; a corner is left empty, so that coverage stays below 1.
        cell, objective = rng.randrange(grid.cells - 2), rng.randrange(-4, 5) / 4
        status = ribs_archive.add_single([serial], objective, grid.bins(cell))["status"]
        placement = await store.elites.offer(offer(search.id, candidate, objective, cell=cell, variant=serial))
        assert placement is STATUS[int(status)]

    stats = ribs_archive.stats
    progress = await store.elites.progress(search.id, DEVICE, grid.cells)
    assert progress.elites == stats.num_elites < grid.cells
    assert progress.coverage == pytest.approx(stats.coverage)
    assert progress.qd_score == pytest.approx(stats.qd_score)
    assert progress.norm_qd_score == pytest.approx(stats.norm_qd_score)
    assert progress.best == stats.obj_max

    theirs = ribs_archive.data(["index", "objective", "solution"], return_type="tuple")
    held = {int(cell): (float(objective), int(solution[0])) for cell, objective, solution in zip(*theirs, strict=True)}
    ours = await store.elites.list(search.id, DEVICE, 1)
    assert {elite.cell: (elite.objective, elite.variant) for elite in ours} == held


def test_an_empty_archive_has_no_best() -> None:
    progress = summarise(6, Filled(0, 0.0, None), [])
    assert (progress.coverage, progress.qd_score, progress.norm_qd_score, progress.best) == (0.0, 0.0, 0.0, None)
    assert (progress.evaluations, progress.outcomes, progress.emitters) == (0, {}, {})


def test_tallies_are_told_by_outcome_and_by_emitter() -> None:
    tallies = [
        Tally("tune", PROPOSED, 9),
        Tally("tune", "correct", 4),
        Tally("tune", "wrong_result", 2),
        Tally("tune", PROMOTED, 3),
        Tally("rewrite", PROPOSED, 2),
        Tally("rewrite", "correct", 1),
    ]
    progress = summarise(10, Filled(3, 4.5, 2.0), tallies)
    assert progress.evaluations == 7
    assert progress.correct == 5
    assert progress.outcomes == {"correct": 5, "wrong_result": 2}
    assert progress.emitters == {
        "rewrite": {"proposals": 2, "judged": 1, "correct": 1, "promotions": 0},
        "tune": {"proposals": 9, "judged": 6, "correct": 4, "promotions": 3},
    }
    assert (progress.coverage, progress.qd_score, progress.norm_qd_score, progress.best) == (0.3, 4.5, 0.45, 2.0)
