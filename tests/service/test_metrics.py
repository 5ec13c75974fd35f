"""What is counted, and that nothing a stranger writes becomes a series or breaks a counter."""

import pytest

from service.events import CandidateJudged, ElitePromoted, SearchChanged
from service.metrics import LONGEST_STAGE_S, Metrics
from workers.protocol import Device, Outcome, Report, TraceReport

DEVICE = Device.parse("model:sm_90")


def report(**changes: object) -> Report:
    values: dict[str, object] = {
        "job": "job",
        "search": "search",
        "candidate": "candidate",
        "variant": 0,
        "bundle": "b" * 64,
        "device": DEVICE,
        "worker": "worker",
        "outcome": Outcome.CORRECT,
        "provenance": "predicted",
        "stages_s": {"check": 0.25, "time": 0.5},
    }
    return Report.model_validate({**values, **changes})


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def value(metrics: Metrics, name: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(name, labels)


def test_reports_are_counted_by_kind_and_outcome(metrics: Metrics) -> None:
    metrics.reported(report())
    metrics.reported(report(outcome=Outcome.WRONG_RESULT))
    metrics.reported(TraceReport(job="j", search="s", worker="w", outcome=Outcome.CORRECT, stages_s={"trace": 2.0}))
    assert value(metrics, "reef_reports_total", kind="measure", outcome="correct") == 1
    assert value(metrics, "reef_reports_total", kind="measure", outcome="wrong_result") == 1
    assert value(metrics, "reef_reports_total", kind="trace", outcome="correct") == 1
    assert value(metrics, "reef_stage_seconds_sum", kind="trace", stage="trace") == 2.0
    assert value(metrics, "reef_stage_seconds_count", kind="measure", stage="check") == 2


def test_a_device_is_busy_for_the_stages_of_its_reports(metrics: Metrics) -> None:
    metrics.reported(report())
    metrics.reported(report(kind="confirm"))
    assert value(metrics, "reef_device_busy_seconds_total", device="model:sm_90") == 1.5


@pytest.mark.parametrize(
    ("told", "counted"), [(-5.0, 0.0), (float("nan"), 0.0), (1e300, LONGEST_STAGE_S), (float("inf"), LONGEST_STAGE_S)]
)
def test_seconds_that_cannot_be_are_bounded(metrics: Metrics, told: float, counted: float) -> None:
    metrics.reported(report().model_copy(update={"stages_s": {"check": told}}))
    assert value(metrics, "reef_device_busy_seconds_total", device="model:sm_90") == counted


def test_a_stage_of_a_strangers_making_is_no_series(metrics: Metrics) -> None:
    metrics.reported(report(stages_s={"}\n evil": 1.0}))
    assert value(metrics, "reef_device_busy_seconds_total", device="model:sm_90") == 0.0
    assert [sample for family in metrics.registry.collect() for sample in family.samples if "evil" in str(sample)] == []


def test_verdicts_and_promotions_are_counted(metrics: Metrics) -> None:
    metrics.published(CandidateJudged("s", "c", 1, "tune", "correct", objective=1.0))
    metrics.published(ElitePromoted("s", "model:sm_90", 3, "c", 1.0, "new"))
    metrics.published(SearchChanged("s", "done"))
    assert value(metrics, "reef_candidates_judged_total", emitter="tune", outcome="correct") == 1
    assert value(metrics, "reef_promotions_total", device="model:sm_90", placement="new") == 1
