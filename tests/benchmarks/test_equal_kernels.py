"""Equal kernels go the way of candidates: what holds the cell, what is confirmed, and how sure that is."""

import threading

import pytest

from benchmarks.equal_kernels import RecordedReports, ceiling_of, contest, equal_bundle, tally_contest
from benchmarks.figures import TimeAllowance
from service.evaluation.next_step import ReportFacts
from workers.protocol import Ratio

EQUAL = Ratio(low=0.998, mid=1.0, high=1.002)


class Lucky:
    """A card that sees every tenth measurement, and every hundredth confirm, as faster."""

    def __init__(self) -> None:
        self.confirmed: list[int] = []

    def measure(self, number: int) -> ReportFacts | None:
        faster = Ratio(low=1.006, mid=1.008, high=1.01)
        return None if number == 5 else ReportFacts("measure", True, True, EQUAL if number % 10 else faster)

    def confirm(self, number: int) -> ReportFacts | None:
        self.confirmed.append(number)
        rival = EQUAL if number % 100 else Ratio(low=1.0051, mid=1.006, high=1.007)
        return ReportFacts("confirm", True, True, EQUAL, "elite", rival)


def test_holders_are_confirmed_and_counted_with_bounds() -> None:
    card = Lucky()
    found = tally_contest(list(contest(card, 200, 0, TimeAllowance(60))))
    assert card.confirmed == [-1, *range(0, 200, 10)]
    assert (found["kernels"], found["failed"], found["held"]) == (199, 1, 20)
    assert (found["confirms"], found["confirmed"], found["held_and_confirmed"]) == (20, 2, 2)
    assert found["held_at_most"] == pytest.approx(0.1508, abs=0.001)
    assert found["confirmed_at_most"] == pytest.approx(0.317, abs=0.001)


def test_executors_judge_beside_each_other_and_count_alike() -> None:
    both = threading.Barrier(2, timeout=30)

    class Slow(Lucky):
        """A card where the first two kernels wait for each other."""

        def measure(self, number: int) -> ReportFacts | None:
            if number < 2:
                both.wait()
            return super().measure(number)

    card = Slow()
    rows = list(contest(card, 200, 0, TimeAllowance(60), executors=2))
    assert sorted(row["kernel"] for row in rows[1:]) == list(range(200))
    assert tally_contest(rows) == tally_contest(list(contest(Lucky(), 200, 0, TimeAllowance(60))))


def test_more_are_confirmed_on_request_and_none_after_the_time() -> None:
    card = Lucky()
    found = tally_contest(list(contest(card, 100, 50, TimeAllowance(60))))
    assert (found["confirms"], found["confirmed"]) == (49 + 5, 1), "one of fifty has no measurement"
    assert tally_contest(list(contest(card, 100, 0, TimeAllowance(0))))["kernels"] == 0


def test_recorded_confirms_within_the_margin_never_win() -> None:
    reports = RecordedReports([EQUAL, Ratio(low=1.0049, mid=1.006, high=1.007)])
    found = tally_contest(list(contest(reports, 1000, 1000, TimeAllowance(60))))
    assert (found["held"], found["confirmed"], found["confirms"]) == (0, 0, 1000)
    assert found["confirmed_at_most"] == pytest.approx(1 - 0.025 ** (1 / 1000))


def test_kernels_that_differ_in_a_comment_have_equal_plans() -> None:
    bundle, graphs = equal_bundle("softmax", 1, "sm_90")
    assert len(bundle.benchmarks) == 1 and len(bundle.plans) > 1 and graphs


def test_the_ceiling_counts_executors_at_work_and_stages():
    measured = [(0.5, {"check": 0.1, "time": 0.2}), (0.3, {"check": 0.1, "time": 0.1, "controls": 0.02})]
    found = ceiling_of(measured, executors=3)
    assert found["measured_per_h"] == 27_000 and found["executors"] == 3
    assert found["stages_s"] == {"check": 0.1, "time": 0.15, "controls": 0.01}
    assert ceiling_of([], executors=3) == {}
