from dataclasses import replace
from datetime import timedelta

import pytest

from archive.records import Milestone, ProgressRecord, SearchState
from service.dashboard.maps import MapView
from service.dashboard.progress_charts import draw_courses
from tests.service import records

SEARCH = replace(
    records.search(),
    state=SearchState.DONE,
    created_at=records.NOW,
    updated_at=records.NOW + timedelta(minutes=10),
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
    drawn = draw_courses(SEARCH, MapView.of(SEARCH, {"along": along}), COURSE, NOW, 2.0)
    assert drawn.choices == ("evaluations", "time", "dollars")
    assert [(course.start, course.end) for course in drawn.courses] == [(start, end)] * 3
    assert [course.now for course in drawn.courses] == ["\u22486.00\u00d7", "50% \u00b7 6 of 12 cells", "\u22489"]


def test_a_search_that_asks_nobody_has_no_dollars() -> None:
    drawn = draw_courses(SEARCH, MapView.of(SEARCH, {"along": "dollars"}), COURSE, NOW, None)
    assert drawn.choices == ("evaluations", "time") and drawn.courses == ()


def test_without_an_elite_there_is_nothing_to_draw() -> None:
    assert draw_courses(SEARCH, MapView.of(SEARCH, {}), [], replace(NOW, best=None), None).courses == ()
