"""A job whose reports are refused is done again, and then counts as lost."""

import pytest

from service.scheduler.poison_reports import MOST_REFUSED, PoisonReports
from tests.service import records
from workers.protocol import REASON_CHARS, AnyReport, Outcome, Report, TraceReport

TRACE = TraceReport(job="c:trace", search="s", candidate="c", worker="w", outcome=Outcome.CORRECT, draft="hostile")


def test_a_job_counts_as_lost_when_enough_of_its_reports_were_refused() -> None:
    refusals = PoisonReports()
    told = [refusals.count(TRACE, f"reason {n}") for n in range(MOST_REFUSED)]
    assert told[:-1] == [None] * (MOST_REFUSED - 1)
    last = told[-1]
    assert last is not None and last.outcome is Outcome.WORKER_LOST and f"reason {MOST_REFUSED - 1}" in last.reason


def lost(report: AnyReport, reason: str) -> AnyReport:
    """Refuse a report until its job counts as lost."""
    refusals = PoisonReports()
    *_, last = [refusals.count(report, reason) for _ in range(MOST_REFUSED)]
    assert last is not None
    return last


def test_every_job_counts_for_itself() -> None:
    refusals = PoisonReports()
    others = [TRACE.model_copy(update={"job": f"{n}:trace"}) for n in range(MOST_REFUSED + 1)]
    assert [refusals.count(other, "") for other in others] == [None] * len(others)


@pytest.mark.parametrize("how", ["settled", "ended"])
def test_what_is_over_is_forgotten(how: str) -> None:
    refusals = PoisonReports()
    for _ in range(MOST_REFUSED - 1):
        refusals.count(TRACE, "")
    if how == "settled":
        refusals.settle(TRACE)
    else:
        refusals.retain({"another"})
    assert refusals.count(TRACE, "") is None


def test_what_stands_in_holds_nothing_else_of_what_was_refused() -> None:
    reason = "r" * (REASON_CHARS + 1)
    instead = lost(TRACE, reason)
    assert len(instead.reason) == REASON_CHARS
    assert instead == TraceReport(
        job="c:trace", search="s", candidate="c", worker="w", outcome=Outcome.WORKER_LOST, reason=instead.reason
    )
    report = records.report({"N=1": 10.0})
    instead = lost(report, reason)
    assert isinstance(instead, Report) and (instead.outcome, instead.shapes) == (Outcome.WORKER_LOST, ())
    for name in ("kind", "job", "search", "candidate", "variant", "bundle", "device", "worker", "provenance"):
        assert getattr(instead, name) == getattr(report, name)
