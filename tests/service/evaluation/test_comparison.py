"""Two answers to one job: when they agree."""

from typing import Any

import pytest

from service.evaluation.comparison import TrustedResult
from tests.service import records
from tests.workers.sheets import RTX3080, RTX3080_12
from workers.protocol import Device, Outcome, Ratio, Report, TracedVariant, TraceReport


def traced(*bundles: int | None, outcome: Outcome = Outcome.CORRECT) -> TraceReport:
    variants = tuple(
        TracedVariant(
            index=index,
            outcome=Outcome.CORRECT if size else Outcome.COMPILE_ERROR,
            bundle=records.bundle(size) if size else None,
        )
        for index, size in enumerate(bundles)
    )
    return TraceReport(job="c:trace", search="s", candidate="c", worker="w", outcome=outcome, variants=variants[::-1])


def known(report: TraceReport | Report) -> TrustedResult:
    answer = TrustedResult.of(report)
    assert answer is not None
    return answer


def measured(speedup: float | None = None, time_us: float = 10.0, **changes: Any) -> Report:
    ratio = None if speedup is None else Ratio(low=speedup, mid=speedup, high=speedup)
    return records.report({"N=1024": time_us}, **changes).model_copy(update={"over_pacer": ratio})


def test_traces_agree_on_every_bundle() -> None:
    assert known(traced(1, None)).bundles == (records.bundle(1).identity, "")
    assert known(traced(1, 2)).differs(known(traced(1, 2))) == ""
    assert known(traced(1, 2)).differs(known(traced(1, 3))) == "the traces are not the same"
    assert "correct is True" in known(traced(1)).differs(known(traced(outcome=Outcome.COMPILE_ERROR)))


def test_verdicts_agree_on_right_and_wrong() -> None:
    wrong, hang = (known(measured(outcome=outcome)) for outcome in (Outcome.WRONG_RESULT, Outcome.HANG))
    assert wrong.differs(hang) == "" and wrong.differs(known(measured())) != ""


def test_cards_of_one_class_are_one_product() -> None:
    device = Device.parse("rtx3080_10gb")
    ten, twelve, silent = (known(measured(1.0, device=device, card=card)) for card in (RTX3080, RTX3080_12, None))
    assert ten.differs(ten) == "" == ten.differs(silent)
    assert ten.differs(twelve) == (
        "the cards are two products: one has 68 SMs and a memory bus of 320 bits, "
        "the other 70 SMs and a memory bus of 384 bits"
    )


@pytest.mark.parametrize(
    ("one", "other", "same"), [(1.0, 1.2, True), (1.0, 1.3, False), (1.3, 1.0, False), (None, 9, True)]
)
def test_measured_speeds_agree_within_what_cards_differ_by(one: float | None, other: float, same: bool) -> None:
    answers = [known(measured(speedup, device="h200")) for speedup in (one, other)]
    assert (answers[0].differs(answers[1]) == "") is same


def test_predicted_times_are_the_same() -> None:
    assert known(measured(time_us=10.0)).differs(known(measured(time_us=10.001))) == ""
    assert known(measured(time_us=10.0)).differs(known(measured(time_us=9.0))) == "the predicted times are not the same"
    other = known(records.report({"N=4096": 10.0}))
    assert known(measured()).differs(other) == "the times are of other shapes"


def test_a_lost_job_says_nothing_and_what_is_known_can_be_kept() -> None:
    assert TrustedResult.of(measured(outcome=Outcome.WORKER_LOST)) is None
    answer = known(traced(1, 2))
    assert TrustedResult.model_validate_json(answer.model_dump_json()) == answer
