"""A machine is asked what it can do; when it does not say, that is said."""

import sys

import pytest

from service.errors import Unavailable
from service.fleet.survey import survey


def says(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


async def test_this_machine_says_what_it_can_do() -> None:
    found = await survey()
    assert "pid" in found.jail and found.versions["python"] == sys.version.split()[0]


async def test_chatter_before_the_answer_is_passed_over() -> None:
    answer = '{"jail": "none", "versions": {}}'
    found = await survey(says(f"print('a library'); print('{answer}')"))
    assert found.jail == "none" and found.cards == ()


@pytest.mark.parametrize("code", ["raise SystemExit('no jail')", "import sys; print('{}'); sys.exit('no jail')"])
async def test_what_went_wrong_is_told(code: str) -> None:
    with pytest.raises(Unavailable, match="no jail"):
        await survey(says(code))


async def test_silence_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.fleet.survey.SURVEY_S", 0.2)
    with pytest.raises(Unavailable, match="no answer"):
        await survey(says("import time; time.sleep(600)"))
