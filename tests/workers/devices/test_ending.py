import pytest

from workers.devices.ending import JudgementEnded, timed
from workers.protocol import REASON_CHARS, Outcome, Stage


def test_a_reason_is_never_longer_than_a_report_may_hold():
    ended = JudgementEnded(Stage.CHECK, Outcome.WRONG_RESULT, "x" * (REASON_CHARS + 1), line=3)
    assert len(ended.found["reason"]) == REASON_CHARS
    steering = JudgementEnded(Stage.CHECK, Outcome.WRONG_RESULT, "no \x1b[31m`text`\x07\nat all")
    assert steering.found["reason"] == str(steering) == "no  [31m`text` \nat all"
    assert (ended.found["outcome"], ended.found["line"]) == (Outcome.WRONG_RESULT, 3)


def test_seconds_add_up_even_where_a_verdict_ends_the_block():
    stages_s = {"check": 1.0}
    with pytest.raises(JudgementEnded), timed(stages_s, "check"):
        raise JudgementEnded(Stage.CHECK, Outcome.HANG, "it hangs")
    assert 1.0 < stages_s["check"] < 2.0
