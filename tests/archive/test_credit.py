"""What is tried in vain loses its place; what gains more, more often, is worth more."""

from math import log

import pytest

from archive.credit import ASSUMED_GAIN, PAYS, TRIALS, pays, share, worth


def test_an_entry_gets_its_trials_before_it_can_retire() -> None:
    assert all(pays(0, trials) for trials in range(TRIALS))
    assert not pays(0, TRIALS)


@pytest.mark.parametrize("gains, trials, kept", [(0, 18, True), (1, 38, True), (1, 39, False), (30, 60, True)])
def test_it_retires_when_too_few_trials_gain(gains: int, trials: int, kept: bool) -> None:
    assert pays(gains, trials) is kept
    assert (share(gains, trials) >= PAYS) is kept


def test_the_share_begins_at_a_half_and_follows_what_is_seen() -> None:
    assert share(0, 0) == 0.5
    assert share(9, 10) == pytest.approx(10 / 12)


def test_worth_grows_with_the_gain_and_with_how_often_it_comes() -> None:
    assert worth(5, 10, 1.5) > worth(5, 10, 1.2) > worth(2, 10, 1.2) > 0
    assert worth(5, 10, 0.9) == 0
    assert worth(0, 0, None) == pytest.approx(0.5 * log(ASSUMED_GAIN))
