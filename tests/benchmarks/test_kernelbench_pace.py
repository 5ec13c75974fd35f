"""Pace of a sitting: shares of the card, stale leads, and what else fits."""

import pytest

from benchmarks.kernelbench_pace import (
    COMPARE_S,
    READY_S,
    SEARCH_S,
    STALE_EVALUATIONS,
    CampaignPace,
    CardSeconds,
    SearchProgress,
)


class SetClock:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_another_problem_fits_by_what_the_latest_ones_took() -> None:
    pace = CampaignPace()
    assert pace.needed_s(0) == READY_S + SEARCH_S + COMPARE_S
    pace.ready_s += [100.0, 4.0, 5.0, 6.0]
    pace.card_s += [10.0]
    pace.compare_s += [8.0]
    assert pace.needed_s(0) == 5.5 + 10.0 + 8.0
    assert pace.needed_s(3) == 3 * 18.0 + 10.0 + 8.0  # Three others have the card while it gets ready.
    assert pace.compared_s(2) == 16.0


def test_searches_share_the_seconds_of_a_card_evenly() -> None:
    clock = SetClock()
    card = CardSeconds(clock)
    clock.now += 5.0  # Nothing runs.
    card.begin("a")
    clock.now += 4.0
    card.begin("b")
    clock.now += 6.0
    assert (card.had_s("a"), card.had_s("b"), card.running) == (7.0, 3.0, 2)
    card.end("a")
    card.end("a")
    clock.now += 2.0
    card.end("b")
    clock.now += 9.0
    assert (card.had_s("a"), card.had_s("b"), card.had_s("c")) == (7.0, 5.0, 0.0)
    assert card.had_s("a") + card.had_s("b") == 4.0 + 6.0 + 2.0  # The time in which any ran, once.


@pytest.mark.parametrize(
    ("card_s", "evaluated", "stale"),
    [
        (12.0, 3 + STALE_EVALUATIONS, True),
        (11.9, 3 + STALE_EVALUATIONS, False),
        (30.0, 2 + STALE_EVALUATIONS, False),
    ],
)
def test_a_lead_is_stale_after_seconds_and_evaluations(card_s: float, evaluated: int, stale: bool) -> None:
    progress = SearchProgress()
    progress.note("a", 1.0, 1)
    progress.note("b", 2.0, 3)
    progress.note("b", 9.0, 9)
    assert progress.is_stale(card_s, evaluated, 10.0) is stale


def test_a_search_without_a_kernel_is_stale_in_the_end() -> None:
    assert SearchProgress().is_stale(10.0, STALE_EVALUATIONS, 10.0)
