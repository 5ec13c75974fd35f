"""What is no answer to a job is refused, and told why."""

from typing import Any

import pytest

from tests.workers.queue.samples import BUNDLE, confirm_job, measure_job, report_on, trace_job
from tests.workers.sheets import H100, H200, RTX4090
from workers.protocol import (
    Device,
    MutationReport,
    Outcome,
    Provenance,
    Ratio,
    Readings,
    ShapeResult,
    Toolchain,
    TracedVariant,
    TraceReport,
)
from workers.queue.report_validation import require_match

READINGS = (Readings(launches=1, programs=1, programs_per_sm=1.0, num_warps=4),)


def traced(**changes: Any) -> TraceReport:
    variant = TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=BUNDLE, readings=READINGS)
    return report_on(trace_job("job-1"), "w").model_copy(update={"variants": (variant,), **changes})


def variant(**changes: Any) -> TracedVariant:
    return traced().variants[0].model_copy(update=changes)


def test_answers_are_let_pass() -> None:
    measure, confirm = measure_job("job-2"), confirm_job("job-3")
    failed = traced(variants=(variant(bundle=None, readings=(), outcome=Outcome.COMPILE_ERROR),))
    confirmed = report_on(measure_job("job-3"), "w").model_copy(update={"kind": "confirm"})
    assert require_match(trace_job("job-1"), traced()) is None
    assert require_match(trace_job("job-1"), failed) is None
    assert require_match(measure, report_on(measure, "w")) is None
    assert require_match(confirm, confirmed) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"job": "job-9"},
        {"search": "search-9"},
        {"candidate": "another"},
        {"variant": 1},
        {"bundle": "0" * 64},
        {"device": "h200"},
        {"kind": "confirm"},
        {"provenance": Provenance.MEASURED},
        {"protocol_version": 7},
    ],
    ids=lambda changes: next(iter(changes)),
)
def test_a_verdict_on_anything_else_is_refused(changes: dict[str, Any]) -> None:
    job = measure_job("job-1")
    with pytest.raises(ValueError, match=next(iter(changes))):
        require_match(job, report_on(job, "w").model_copy(update=changes))


def test_a_card_of_another_class_is_refused() -> None:
    job = measure_job("job-1").model_copy(update={"device": Device.parse("h200")})
    measured = report_on(job, "w").model_copy(update={"provenance": Provenance.MEASURED, "card": H200})
    assert require_match(job, measured) is None
    for card in (H100, RTX4090):
        with pytest.raises(ValueError, match="another card than h200"):
            require_match(job, measured.model_copy(update={"card": card}))
    predicted = measure_job("job-1")
    with pytest.raises(ValueError, match="another card than model:"):
        require_match(predicted, report_on(predicted, "w").model_copy(update={"card": H200}))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gate": MutationReport(verdict="passed")}, "did not request"),
        ({"variants": (variant(), variant())}, "one index"),
        ({"variants": (variant(bundle=BUNDLE.model_copy(update={"operator": "0" * 64})),)}, "another operator"),
        ({"variants": (variant(bundle=BUNDLE.model_copy(update={"target": "sm_80"})),)}, "another operator or target"),
        ({"variants": (variant(readings=()),)}, "exactly the job's shapes"),
        ({"variants": (variant(bundle=BUNDLE.model_copy(update={"plans": BUNDLE.plans * 2})),)}, "the job's shapes"),
    ],
)
def test_a_trace_of_anything_else_is_refused(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        require_match(trace_job("job-1"), traced(**changes))


def test_a_trace_is_no_verdict_and_a_verdict_no_trace() -> None:
    job = measure_job("job-1")
    for asked, said in ((trace_job("job-1"), report_on(job, "w")), (job, traced())):
        with pytest.raises(ValueError, match="kind"):
            require_match(asked, said)


@pytest.mark.parametrize(
    "figures",
    [
        {"speedup": Ratio(low=2.0, mid=1.0, high=3.0)},
        {"speedup": Ratio(low=-1.0, mid=1.0, high=3.0)},
        {"rival": Ratio(low=1.0, mid=1.0, high=float("inf"))},
        {"rival": Ratio(low=float("nan"), mid=1.0, high=2.0)},
        {"shapes": (ShapeResult(shape="N=64", mid_us=0.0),)},
        {"shapes": (ShapeResult(shape="N=64", low_us=3.0, mid_us=2.0, high_us=4.0),)},
        {"versions": {"triton": "x" * (1 << 20)}},
    ],
)
def test_figures_that_cannot_be_are_refused(figures: dict[str, Any]) -> None:
    job = measure_job("job-1")
    with pytest.raises(ValueError, match=r"impossible|longer than"):
        require_match(job, report_on(job, "w").model_copy(update=figures))


@pytest.mark.parametrize("triton", [None, "3.7.1"])
def test_plans_of_another_compiler_than_the_job_asks_for_are_refused(triton: str | None) -> None:
    job = trace_job("job-1").model_copy(update={"compiler": "3.9"})

    def answer(triton: str | None) -> TraceReport:
        toolchain = None if triton is None else Toolchain(triton=triton)
        return traced(variants=(variant(bundle=BUNDLE.model_copy(update={"toolchain": toolchain})),))

    with pytest.raises(ValueError, match=r"not from Triton 3\.9"):
        require_match(job, answer(triton))
    require_match(job, answer("3.9.2"))
    require_match(trace_job("job-1"), answer(triton))
