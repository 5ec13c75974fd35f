import pytest
from pydantic import ValidationError

from tests.workers.protocol.documents import bundle
from workers.protocol import (
    REASON_CHARS,
    REPORT,
    CheckResult,
    Device,
    Outcome,
    Provenance,
    Ratio,
    Readings,
    Report,
    ShapeResult,
    Stage,
    TracedVariant,
    TraceReport,
)

READINGS = Readings(
    launches=1, programs=8, programs_per_sm=8 / 132, num_warps=4, persistent=False, instructions={"float": 3}
)
TRACED = TraceReport(
    job="1",
    search="2",
    worker="w",
    outcome=Outcome.CORRECT,
    variants=(TracedVariant(index=0, outcome=Outcome.CORRECT, bundle=bundle(), readings=(READINGS,)),),
    stages_s={"trace": 0.1},
)
MEASURED = Report(
    job="1",
    search="2",
    candidate="3",
    variant=0,
    bundle=bundle().identity,
    device=Device.parse("model:sm_90"),
    worker="w",
    outcome=Outcome.WRONG_RESULT,
    reason="row 3",
    stage=Stage.CHECK,
    provenance=Provenance.PREDICTED,
    shapes=(ShapeResult(shape="M=8,N=16", readings=READINGS, mid_us=3.5, low_us=3.5, high_us=3.5),),
    checks=(CheckResult(name="error_ratio", verdict="failed", worst=float("inf")),),
)
CONFIRMED = MEASURED.model_copy(
    update={
        "kind": "confirm",
        "device": Device.parse("h200"),
        "outcome": Outcome.CORRECT,
        "speedup": Ratio(low=1.2, mid=1.25, high=1.3),
        "rival": Ratio(low=1.01, mid=1.02, high=1.03),
    }
)


@pytest.mark.parametrize("report", [TRACED, MEASURED, CONFIRMED], ids=lambda report: report.kind)
def test_a_report_survives_json(report: TraceReport | Report) -> None:
    assert REPORT.validate_json(REPORT.dump_json(report)) == report


@pytest.mark.parametrize("text", ["{}", "null", '{"kind": "traced"}', '{"kind": "trace"}'])
def test_what_is_no_report_is_refused(text: str) -> None:
    with pytest.raises(ValidationError):
        REPORT.validate_json(text)


def test_a_reason_has_a_longest_length() -> None:
    with pytest.raises(ValidationError, match="at most"):
        TracedVariant(index=0, outcome=Outcome.COMPILE_ERROR, reason="x" * (REASON_CHARS + 1))


def test_unknown_readings_are_none_not_zero() -> None:
    assert READINGS.registers is None
    assert '"registers":null' in READINGS.model_dump_json()


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    "told",
    [
        {"registers": 10**400},
        {"launches": -1},
        {"instructions": {"float": 10**400}},
        {"programs_per_sm": NAN},
        {"occupancy": INF},
    ],
)
def test_a_reading_is_a_number_that_a_float_holds(told: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(told))):
        Readings.model_validate({**READINGS.model_dump(), **told})


@pytest.mark.parametrize("told", [{"line": 10**10}, {"line": 0}, {"stages_s": {"a": NAN}}, {"stages_s": {"a": 1e308}}])
@pytest.mark.parametrize("report", [TRACED, MEASURED], ids=lambda report: report.kind)
def test_lines_and_seconds_are_ones_that_can_be(report: TraceReport | Report, told: dict[str, object]) -> None:
    with pytest.raises(ValidationError, match=next(iter(told))):
        REPORT.validate_json(report.model_copy(update=told).model_dump_json())


@pytest.mark.parametrize("index", [-1, 2**31])
def test_no_variant_has_an_index_that_the_archive_cannot_count(index: int) -> None:
    with pytest.raises(ValidationError, match="index"):
        TracedVariant(index=index, outcome=Outcome.CORRECT)


@pytest.mark.parametrize("quoted", ["\x1b]0;title\x07", "\u202e", "\x9b2J", "\r"])
def test_what_a_reason_quotes_steers_no_terminal(quoted: str) -> None:
    for kind, whole in ((Report, MEASURED), (TraceReport, TRACED)):
        read = kind.model_validate(whole.model_dump() | {"reason": f"first\n{quoted}end"})
        assert read.reason.startswith("first\n ") and read.reason.replace("\n", "").isprintable()
        assert len(read.reason) == len(f"first\n{quoted}end")
