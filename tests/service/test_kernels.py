"""The best kernel's file holds the candidate as it is, says where it came from, and parses."""

import ast

from archive.records import Variant
from service.kernels import kernel_file
from tests.service import records


def _file(**changes: object) -> str:
    variant = Variant("candidate-1", 0, {"BLOCK": 64}, "b" * 64, None, "", None)
    return kernel_file(records.search(), records.OPERATOR, records.candidate(), variant, records.elite(**changes))


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
    assert "predicted" not in text and "best baseline" in text
