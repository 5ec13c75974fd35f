"""On a card the survey opens it, shares its memory with another process and runs a graph."""

import pytest

from workers.survey import survey

pytestmark = pytest.mark.gpu


def test_what_measuring_needs_works_here():
    found = survey()
    assert found.cards and found.no_card == ""
    for card in found.cards:
        assert (card.sharing, card.graphs) == ("works", "works")
        assert card.sheet.l2_bytes > 2**20 and card.driver and card.cuda
