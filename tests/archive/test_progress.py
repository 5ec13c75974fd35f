"""Progress agrees with pyribs, on the same stream of offers."""

import json
from pathlib import Path

import pytest

from archive.grid import Grid
from archive.progress import PROMOTED, PROPOSED, EventCount, GridTotals, dropped, summarise
from archive.records import AxisRecord, Placement
from archive.store import Store
from tests.archive.samples import DEVICE, offer, stored_candidate, stored_search

STATUS = {0: Placement.REJECTED, 1: Placement.IMPROVED, 2: Placement.NEW}
"""What pyribs' `add` answers."""


FIXTURE = json.loads((Path(__file__).parent / "pyribs.json").read_text())
"""Written by `python -m benchmarks.pyribs`."""


async def test_placements_elites_and_statistics_are_those_of_pyribs(store: Store) -> None:
    axes = tuple(AxisRecord(name, bins) for name, bins in FIXTURE["axes"].items())
    search = await stored_search(store, axes=axes)
    candidate = await stored_candidate(store, search.id)
    for serial, (cell, objective, status) in enumerate(FIXTURE["offers"]):
        placement = await store.elites.offer(offer(search.id, candidate, objective, cell=cell, variant=serial))
        assert placement is STATUS[status]

    progress = await store.elites.progress(search.id, DEVICE, Grid(axes).cells)
    assert {name: getattr(progress, name) for name in FIXTURE["statistics"]} == pytest.approx(FIXTURE["statistics"])
    held = await store.elites.list(search.id, DEVICE, 1)
    assert [[elite.cell, elite.objective, elite.variant] for elite in held] == FIXTURE["holders"]


def test_an_empty_archive_has_no_best() -> None:
    progress = summarise(6, GridTotals(0, 0.0, None), [])
    assert (progress.coverage, progress.qd_score, progress.norm_qd_score, progress.best) == (0.0, 0.0, 0.0, None)
    assert (progress.evaluated, progress.outcomes, progress.emitters) == (0, {}, {})


def test_tallies_are_told_by_outcome_and_by_emitter() -> None:
    tallies = [
        EventCount("tune", PROPOSED, 9),
        EventCount("tune", "correct", 4),
        EventCount("tune", "wrong_result", 2),
        EventCount("tune", PROMOTED, 3),
        EventCount("rewrite", PROPOSED, 2),
        EventCount("rewrite", "correct", 1),
    ]
    progress = summarise(10, GridTotals(3, 4.5, 2.0), tallies)
    assert progress.evaluated == 7
    assert progress.correct == 5
    assert progress.outcomes == {"correct": 5, "wrong_result": 2}
    assert progress.emitters == {
        "rewrite": {"proposals": 2, "judged": 1, "correct": 1, "promotions": 0},
        "tune": {"proposals": 9, "judged": 6, "correct": 4, "promotions": 3},
    }
    assert (progress.coverage, progress.qd_score, progress.norm_qd_score, progress.best) == (0.3, 4.5, 0.45, 2.0)


def test_what_was_dropped_is_counted_over_all_emitters() -> None:
    assert dropped({"tune": {"proposals": 3, "screened": 5}, "rewrite": {"screened": 2}, "seed": {"proposals": 1}}) == 7
