"""What screening saved follows from how often unseen proposals win."""

import pytest

from kernelreef.models import ScreeningReport
from service.generation.screening_report import dropped, screened_of


def test_savings_are_what_unseen_proposals_would_have_taken() -> None:
    told = screened_of([(True, at % 10 == 0) for at in range(40)] + [(False, at % 2 == 0) for at in range(20)])
    assert (told.chosen, told.chosen_promotions, told.blind, told.blind_promotions) == (20, 10, 40, 4)
    assert told.saved == pytest.approx(10 / 0.1 - 20)


@pytest.mark.parametrize("tried", [[], [(False, True)], [(True, False), (False, True)]])
def test_nothing_is_told_before_an_unseen_one_won(tried: list[tuple[bool, bool]]) -> None:
    assert screened_of(tried).saved is None


def test_screening_may_lose_evaluations() -> None:
    assert screened_of([(True, True), (False, False)]).saved == -1.0


def test_savings_are_said_in_words() -> None:
    told = ScreeningReport(chosen=1200, chosen_promotions=30, blind=40, blind_promotions=0, saved=None)
    assert told.in_words(1234) == (
        "Screening passed over 1,234 ways. Of the proposals that it chose lately 30 of 1,200 won a cell, "
        "of those stored unseen 0 of 40."
    )
    assert told.model_copy(update={"saved": 79.6}).in_words(0).endswith("0 of 40: 80 evaluations saved.")
    assert told.model_copy(update={"saved": -79.6}).in_words(0).endswith("0 of 40: 80 evaluations lost.")


def test_what_was_dropped_is_counted_over_all_emitters() -> None:
    assert dropped({"tune": {"proposals": 3, "screened": 5}, "rewrite": {"screened": 2}, "seed": {"proposals": 1}}) == 7
