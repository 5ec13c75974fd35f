"""Reports in the archive: addressed to whoever waits, and which of several counts."""

from archive.records import EMPTY_CELL
from service.evaluation.jobs import AGAIN, confirm_id, measure_id
from service.evaluation.reports import addressed, is_unverified, latest_reports, record
from tests.service import records
from tests.service.evaluation.test_jobs import case
from workers.protocol import Device, Outcome, Report, Trust

H200 = Device.parse("h200")


def report(kind: str = "measure", **changes: object) -> Report:
    job = measure_id("other", 0, "h200") if kind == "measure" else confirm_id("other", 0, "h200", EMPTY_CELL)
    return records.report({}, **{"kind": kind, "job": job, "device": H200, "candidate": "other", **changes})


def test_a_report_goes_to_another_case_under_that_ones_job() -> None:
    measured = addressed(report(), case(), None)
    confirmed = addressed(report("confirm"), case(), EMPTY_CELL)
    assert addressed(report(), case(), AGAIN).job == f"{case().job()}:{AGAIN}"
    assert (measured.job, confirmed.job) == (case().job(), case().job(EMPTY_CELL))
    assert (measured.candidate, measured.variant, measured.search) == ("candidate-1", 2, "search-1")
    kept = record(case(), confirmed)
    assert (kept.job, kept.kind, kept.operator, kept.device) == (
        confirmed.job,
        "confirm",
        records.OPERATOR.digest,
        "h200",
    )
    assert Report.model_validate_json(kept.document) == confirmed


def test_a_confirm_has_the_last_word_unless_it_got_lost() -> None:
    measured, wrong = report(), report("confirm", outcome=Outcome.WRONG_RESULT)
    lost, other = report("confirm", outcome=Outcome.WORKER_LOST), report(variant=1)
    assert latest_reports([measured, other, wrong]) == [wrong, other]
    assert latest_reports([measured, other, lost]) == [measured, other]
    assert latest_reports([lost]) == [lost]
    elsewhere = report(device=Device.parse("h100"))
    assert latest_reports([measured, elsewhere]) == [measured, elsewhere]


def test_the_word_of_who_is_not_trusted_is_doubtful() -> None:
    assert [is_unverified(report(trust=trust)) for trust in (None, Trust.A, Trust.B, Trust.C, Trust.D)] == [
        False,
        False,
        False,
        True,
        True,
    ]
