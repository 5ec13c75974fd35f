"""Documents say what the records say, in words that a client can rely on."""

from datetime import UTC, datetime

import pytest

from archive.descriptors import DESCRIPTORS
from archive.grid import Grid
from archive.records import AxisRecord
from service.api import builders
from service.evaluation import figure_labels
from tests.service import records
from workers.protocol.card import KNOWN_CLASSES


@pytest.mark.parametrize(
    ("device", "word"), [("h200", "measured"), ("model:sm_90", "predicted"), ("recorded:h200", "recorded")]
)
def test_the_three_kinds_of_figures_are_told_apart(device: str, word: str) -> None:
    assert figure_labels.provenance(device) == word
    assert all(figure_labels.provenance(name) == "measured" for name in KNOWN_CLASSES)


def test_a_search_shows_its_operator_by_name_and_digest() -> None:
    shown = builders.search_of(records.search())
    assert (shown.operator, shown.operator_digest) == ("double", records.OPERATOR.digest)
    assert "graphs" not in shown.model_dump()


def test_times_are_utc_in_iso_8601() -> None:
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    assert (
        '"created_at":"2026-01-02T03:04:05.678000Z"'
        in builders.search_of(records.search(created_at=moment)).model_dump_json()
    )


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_every_axis_explains_itself(name: str) -> None:
    axis = builders.axis_of(DESCRIPTORS[name].axis)
    assert len(axis.labels) == axis.bins == len(axis.edges) + 1
    assert axis.meaning


def test_an_elite_knows_its_place_on_every_axis() -> None:
    axes = (AxisRecord("num_warps", 6), AxisRecord("persistent", 2))
    coordinates = {"num_warps": {"value": 4.0, "bin": 2}, "persistent": {"value": 1.0, "bin": 1}}
    grid = Grid(axes)
    cell = grid.index(coordinates)
    elite = records.elite(cell=cell, coordinates=coordinates)
    shown = builders.elite_of(records.search(), elite, grid)
    assert (shown.bins, shown.admitted) == ((2, 1), "")
    assert builders.elite_of(records.search(admitted="zeros pass"), elite, grid).admitted == "zeros pass"


def test_a_candidate_carries_its_reports_as_they_came() -> None:
    report = records.report({"N=1024": 5.0})
    shown = builders.candidate_of(records.candidate(), (), [report.model_dump_json()])
    assert shown.reports == (report.model_dump(mode="json"),)


def test_an_operator_in_a_list_tells_it_from_another() -> None:
    shown = builders.operator_summary_of(records.OPERATOR, catalogue=False)
    assert (shown.name, shown.inputs, shown.outputs, shown.dimensions) == ("double", ("x",), ("y",), ("N",))
