from dataclasses import replace
from datetime import timedelta

import pytest

from archive.records import Milestone, ProgressRecord, SearchState
from service.dashboard.charts import bar, draw_charts, progress_line, spacing_for
from service.dashboard.formatting import decimal, evaluations
from service.dashboard.maps import MapView
from tests.service import records


def test_a_course_rises_in_steps_and_says_what_it_shows() -> None:
    drawn = progress_line("Best", [(0, 1.0), (50, 1.0), (100, 2.0)], decimal, evaluations, bottom=1.0)
    assert drawn.line == "M0.0 100.0H150.0V100.0H300.0V7.4"
    assert drawn.area.endswith("V100H0Z")
    assert drawn.summary == "Best: from 1 to 2, between 0 evaluations and 100 evaluations"
    assert (drawn.now, drawn.start, drawn.end) == ("2", "0 evaluations", "100 evaluations")
    assert drawn.values == ("1", "1", "2")
    assert drawn.positions == ("0 evaluations", "50 evaluations", "100 evaluations")


def test_one_point_is_a_level_line_and_none_is_no_line() -> None:
    assert progress_line("Best", [(5, 2.0)], decimal, evaluations).line.endswith("H300")
    nothing = progress_line("Best", [], decimal, evaluations)
    assert (nothing.line, nothing.summary) == ("", "Best: nothing yet")


def test_values_that_never_change_do_not_divide_by_zero() -> None:
    assert progress_line("Coverage", [(0, 0.0), (9, 0.0)], decimal, evaluations).line == "M0.0 100.0H300.0V100.0"


def test_points_stay_few_however_long_a_search_is() -> None:
    assert [spacing_for(judged, 250) for judged in (0, 249, 500, 1_000_000)] == [1, 1, 2, 2048]


def test_a_bar_lies_where_its_time_does() -> None:
    drawn = bar("own", "own", "10 us", (8.0, 10.0, 12.0), 20.0)
    assert (drawn.middle, drawn.low, drawn.span) == (50.0, 40.0, 20.0)
    assert bar("own", "own", "", (0.0, 0.0, 0.0), 0.0).middle == 0.0


SEARCH = replace(
    records.search(),
    state=SearchState.DONE,
    created_at=records.NOW,
    ended_at=records.NOW + timedelta(minutes=10),
)
COURSE = [
    Milestone(number, number, float(number), 1.0 + number, 0.25 * number, records.NOW + timedelta(minutes=number))
    for number in (1, 2, 4)
]
NOW = ProgressRecord(
    evaluated=8, correct=8, elites=6, cells=12, coverage=0.5, qd_score=9.0, norm_qd_score=0.75, best=6.0
)


@pytest.mark.parametrize(
    "along, start, end",
    [
        ("evaluations", "1 evaluation", "8 evaluations"),
        ("time", "1 min 0 s", "10 min 0 s"),
        ("dollars", "$0.2500", "$2.00"),
    ],
)
def test_courses_run_along_evaluations_time_or_dollars(along: str, start: str, end: str) -> None:
    drawn = draw_charts(SEARCH, MapView.of(SEARCH, {"along": along}), COURSE, NOW, 2.0)
    assert drawn.choices == ("evaluations", "time", "dollars")
    assert [(chart.start, chart.end) for chart in drawn.charts] == [(start, end)] * 3
    assert [chart.now for chart in drawn.charts] == ["\u22486.00\u00d7", "50% \u00b7 6 of 12 cells", "\u22489"]


def test_a_search_that_asks_nobody_has_no_dollars() -> None:
    drawn = draw_charts(SEARCH, MapView.of(SEARCH, {"along": "dollars"}), COURSE, NOW, None)
    assert drawn.choices == ("evaluations", "time") and drawn.charts == ()


def test_without_an_elite_there_is_nothing_to_draw() -> None:
    assert draw_charts(SEARCH, MapView.of(SEARCH, {}), [], replace(NOW, best=None), None).charts == ()
