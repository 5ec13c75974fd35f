"""The best kernel's file holds the candidate as it is, says where it came from, and parses."""

import ast

from archive.records import MeasuredBaselines, VariantRecord
from kernelreef.models import FinalistResult
from service.analysis.kernels import kernel_file
from service.evaluation.figure_labels import stamp_of
from tests.service import records
from workers.protocol import Device, Operator, Report, ShapeResult, Trust

SHAPES = (
    ShapeResult(shape="N=1024", baselines_us={"eager": 9.0, "max_autotune": 4.0}),
    ShapeResult(shape="N=4096", baselines_us={"eager": 9.0, "liger": 8.0}),
)


EXAMINED = FinalistResult(standing="passed", reason="")


def _file(report: Report | None = None, finalist: FinalistResult = EXAMINED, **changes: object) -> str:
    variant = VariantRecord("candidate-1", 0, {"BLOCK": 64}, "b" * 64, None, "", None)
    elite = records.elite(**changes)
    search = records.search(baselines={"h200": MeasuredBaselines()})
    return kernel_file(search, records.OPERATOR, records.candidate(), variant, elite, report, finalist)


def test_the_head_says_whether_the_kernel_was_examined() -> None:
    assert "# Examination as a finalist: passed.\n" in _file()
    assert "# Examination as a finalist: unexamined.\n" in _file(None, stamp_of(None))


def test_the_file_is_python_and_holds_the_candidate_unchanged() -> None:
    text = _file()
    assert records.SEED in text
    assert any(isinstance(node, ast.FunctionDef) and node.name == "double" for node in ast.parse(text).body)


def test_the_head_says_where_the_kernel_came_from_and_that_nothing_was_measured() -> None:
    head = _file()[:700]
    for fact in ("search-1", "candidate-1", '{"BLOCK": 64}', "model:sm_90", "1.250x", "predicted, not measured"):
        assert fact in head


def test_a_measured_figure_is_not_called_predicted() -> None:
    text = _file(device="h200")
    assert "predicted" not in text and "best baseline" in text and "(MEASURED on h200)" in text


def test_a_measured_figure_names_the_baselines_and_the_trust() -> None:
    report = records.report({}, device=Device.parse("h200"), shapes=SHAPES, trust=Trust.B)
    head = _file(report, device="h200").splitlines()
    assert head[1] == "# Speedup over the best baseline: 1.250x to 1.250x (MEASURED on h200, trust B)."
    assert head[2] == "# The best baselines were max_autotune at N=1024, liger at N=4096."
    assert head[3].startswith("# Candidate candidate-1")


def test_the_head_says_if_the_operator_failed_mutation_testing() -> None:
    variant = VariantRecord("candidate-1", 0, {}, "b" * 64, None, "", None)
    search = records.search(admitted="zeros pass")
    text = kernel_file(search, records.OPERATOR, records.candidate(), variant, records.elite(), None, EXAMINED)
    assert text.splitlines()[2] == "# ADMITTED against mutation testing, so it may be wrong: zeros pass"
    assert "ADMITTED" not in _file()


def test_without_baselines_no_line_is_left_empty() -> None:
    assert [line[:7] for line in _file().splitlines()[:3]] == ["# doubl", "# Speed", "# Candi"]


def test_the_content_of_an_input_is_compared() -> None:
    told = records.OPERATOR.model_dump()
    told["inputs"][0]["mutable"] = True
    of = Operator.model_validate({**told, "outputs": [{"name": "x", "dtype": told["inputs"][0]["dtype"]}]})
    variant = VariantRecord("candidate-1", 0, {}, "b" * 64, None, "", None)
    text = kernel_file(records.search(), of, records.candidate(), variant, records.elite(), None, EXAMINED)
    assert "contents = {0: 0}" in text and "results(double)" in text
    assert ast.parse(text) and "def results" not in _file()
