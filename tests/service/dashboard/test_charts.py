from service.dashboard.charts import bar, course, spacing_for
from service.dashboard.formatting import decimal, evaluations


def test_a_course_rises_in_steps_and_says_what_it_shows() -> None:
    drawn = course("Best", [(0, 1.0), (50, 1.0), (100, 2.0)], decimal, evaluations, bottom=1.0)
    assert drawn.line == "M0.0 100.0H150.0V100.0H300.0V7.4"
    assert drawn.area.endswith("V100H0Z")
    assert drawn.summary == "Best: from 1 to 2, between 0 evaluations and 100 evaluations"
    assert (drawn.now, drawn.start, drawn.end) == ("2", "0 evaluations", "100 evaluations")


def test_one_point_is_a_level_line_and_none_is_no_line() -> None:
    assert course("Best", [(5, 2.0)], decimal, evaluations).line.endswith("H300")
    nothing = course("Best", [], decimal, evaluations)
    assert (nothing.line, nothing.summary) == ("", "Best: nothing yet")


def test_values_that_never_change_do_not_divide_by_zero() -> None:
    assert course("Coverage", [(0, 0.0), (9, 0.0)], decimal, evaluations).line == "M0.0 100.0H300.0V100.0"


def test_points_stay_few_however_long_a_search_is() -> None:
    assert [spacing_for(judged, 250) for judged in (0, 249, 500, 1_000_000)] == [1, 1, 2, 2048]


def test_a_bar_lies_where_its_time_does() -> None:
    drawn = bar("own", "own", "10 us", (8.0, 10.0, 12.0), 20.0)
    assert (drawn.middle, drawn.low, drawn.span) == (50.0, 40.0, 20.0)
    assert bar("own", "own", "", (0.0, 0.0, 0.0), 0.0).middle == 0.0
