"""A survey is data, and a card is good for measuring only if all that it takes works."""

import pytest

from tests.workers.sheets import H200
from workers.protocol.survey import CardSurvey, Survey

CARD = CardSurvey(
    number=0,
    device="h200",
    sheet=H200,
    driver="570.86.15",
    cuda="12.8",
    sharing="works",
    graphs="works",
)


def test_a_survey_survives_json() -> None:
    survey = Survey(jail="user+pid", versions={"torch": "2.13.0"}, cards=(CARD,))
    assert Survey.model_validate_json(survey.model_dump_json()) == survey
    assert survey.cards[0].name == "NVIDIA H200"


@pytest.mark.parametrize(
    ("changes", "measures"),
    [({}, True), ({"device": None}, False), ({"sharing": "fails: X"}, False), ({"graphs": "fails: X"}, False)],
)
def test_a_card_measures_if_all_that_takes_works(changes: dict[str, object], measures: bool) -> None:
    assert CARD.model_copy(update=changes).measures is measures
