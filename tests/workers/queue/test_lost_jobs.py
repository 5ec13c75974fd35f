"""A job that no worker brought back gets a report of its own kind."""

import pytest

from tests.workers.queue.samples import BUNDLE, SHAPE, confirm_job, measure_job, trace_job
from workers.protocol import (
    REASON_CHARS,
    REPORT,
    Bundle,
    Job,
    Kernel,
    Launch,
    Outcome,
    Plan,
    Provenance,
    Report,
    TraceReport,
)
from workers.queue import lost_report
from workers.queue.lost_jobs import unread_report


def test_a_lost_trace_says_why() -> None:
    job = trace_job("job-1")
    report = lost_report(job, "w", "the host went away")
    assert isinstance(report, TraceReport)
    assert (report.job, report.search, report.candidate, report.worker) == (job.id, job.search, job.candidate, "w")
    assert (report.outcome, report.reason) == (Outcome.WORKER_LOST, "the host went away")


@pytest.mark.parametrize(
    ("device", "provenance"),
    [("model:sm_90", Provenance.PREDICTED), ("h200", Provenance.MEASURED), ("recorded:h200", Provenance.RECORDED)],
)
def test_a_lost_verdict_names_its_bundle_and_device(device: str, provenance: Provenance) -> None:
    for job in (measure_job("job-1", device=device), confirm_job("job-1", device=device)):
        report = lost_report(job, "w", "the host went away")
        assert isinstance(report, Report) and report.kind == job.kind
        assert (report.bundle, report.device.name, report.provenance) == (BUNDLE.identity, device, provenance)
        assert REPORT.validate_json(report.model_dump_json()) == report


def test_a_long_reason_is_cut_to_what_a_report_may_hold() -> None:
    assert len(lost_report(trace_job("job-1"), "w", "x" * 10_000).reason) == REASON_CHARS


def test_a_bundle_that_was_never_assembled_has_no_name() -> None:
    kernel = Kernel(language="ptx", assembly="", target="sm_90", num_warps=4)
    launch = Launch(kernel=kernel.digest, grid=(1, 1, 1), arguments=(), function="k")
    plan = Plan(shape=SHAPE, buffers=(), steps=(launch,), outputs=())
    bundle = Bundle(target="sm_90", operator=BUNDLE.operator, kernels={kernel.digest: kernel}, plans=(plan,))
    report = lost_report(measure_job("job-1").model_copy(update={"bundle": bundle}), "w", "never assembled")
    assert isinstance(report, Report) and report.bundle == ""


@pytest.mark.parametrize("job", [trace_job("job-1"), measure_job("job-1"), confirm_job("job-1")])
def test_what_cannot_be_read_is_told_of_by_its_job(job: Job) -> None:
    lost = lost_report(job, "w", "of a version that we do not know")
    text = lost.model_copy(update={"line": -1, "stages_s": {"trace": -1.0}}).model_dump_json()
    with pytest.raises(ValueError, match="line"):
        REPORT.validate_json(text)
    assert unread_report(text, lost.reason) == lost


@pytest.mark.parametrize("text", ["", "{", "[]", "7", '{"kind": "trace"}', '{"kind": 7, "job": "j"}', "[" * 10_000])
def test_what_names_no_job_is_nothing(text: str) -> None:
    assert unread_report(text, "unreadable") is None
