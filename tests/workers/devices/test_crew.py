import pytest

from workers.devices.crew import CardFailed, Crew
from workers.errors import Transient, WorkerError
from workers.targets import TARGETS

NO_CARD = 63
"""Index of a card that no machine has."""


def test_a_card_that_is_not_there_is_a_failure_of_ours():
    with pytest.raises(WorkerError) as caught:
        Crew(NO_CARD, TARGETS["sm_90"])
    assert str(caught.value)


def test_a_failing_card_may_work_again():
    assert issubclass(CardFailed, Transient)
