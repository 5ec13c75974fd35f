"""Who serves which shape: the best elite, and another one only where it is faster beyond doubt."""

from service.export.selection import ExportCandidate, choose
from tests.service import records
from workers.protocol import ShapeResult


def contender(name: str, objective: float, *times: tuple[str, float, float, float, float | None]) -> ExportCandidate:
    shapes = tuple(
        ShapeResult(shape=shape, low_us=low, mid_us=mid, high_us=high, pacer_us=pacer)
        for shape, low, mid, high, pacer in times
    )
    return ExportCandidate(name, 0, objective, records.report({}, shapes=shapes))


def names(*contenders: ExportCandidate) -> dict[str, str]:
    return {shape: who.candidate for shape, who in choose(contenders, ["A", "B", "small"]).items()}


def test_the_best_serves_what_nobody_serves_faster() -> None:
    best = contender("best", 2.0, ("A", 9.9, 10.0, 10.1, None), ("B", 9.9, 10.0, 10.1, None))
    other = contender("other", 1.5, ("A", 4.9, 5.0, 5.1, None), ("B", 20.0, 20.0, 20.0, None))
    third = contender("third", 1.2, ("A", 5.9, 6.0, 6.1, None))
    assert names(other, best, third) == {"A": "other", "B": "best", "small": "best"}


def test_a_difference_that_may_be_noise_is_none() -> None:
    best = contender("best", 2.0, ("A", 9.5, 10.0, 10.5, None))
    near = contender("near", 1.9, ("A", 9.0, 9.4, 9.6, None))
    assert names(best, near)["A"] == "best"


def test_measured_times_are_compared_by_what_ran_beside_them() -> None:
    best = contender("best", 2.0, ("A", 10.0, 10.0, 10.0, 20.0))
    cooler = contender("cooler", 1.9, ("A", 9.0, 9.0, 9.0, 15.0))
    assert names(best, cooler)["A"] == "best", "0.5 of the pacer's time is less than 0.6 of it"


def test_without_times_there_is_only_the_best() -> None:
    assert names(contender("best", 2.0), contender("other", 1.0, ("A", 1.0, 1.0, 1.0, None)))["A"] == "best"
