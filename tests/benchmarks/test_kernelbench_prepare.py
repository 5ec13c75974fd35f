"""Texts of problems under their contracts, and contracts that have rows of their own."""

import torch

from benchmarks.kernelbench_prepare import BFLOAT16, DEFAULT, STRICT, has_own_row, text_for
from tests.workers.kernelbench.problems import LINEAR, LOSS
from workers.kernelbench import inspect
from workers.protocol.kernelbench import ProblemQuestion


def test_a_problem_in_bfloat16_is_the_published_one_cast_as_kernelbench_casts_it() -> None:
    space: dict[str, object] = {}
    exec(compile(text_for(LINEAR, BFLOAT16), "problem", "exec"), space)
    module = space["Model"](*space["get_init_inputs"]())  # type: ignore[operator]
    x, shift = space["get_inputs"]()  # type: ignore[operator]
    assert {each.dtype for each in module.parameters()} == {x.dtype} == {torch.bfloat16} and shift == 2.5
    found = inspect(ProblemQuestion(source=text_for(LINEAR, BFLOAT16)))
    assert found.reason == "" and {each.dtype for each in found.inputs} == {"bfloat16"}
    loss = inspect(ProblemQuestion(source=text_for(LOSS, BFLOAT16)))
    assert [each.dtype for each in loss.inputs] == ["bfloat16", "int64"]
    assert text_for(LINEAR, DEFAULT) == text_for(LINEAR, STRICT) == LINEAR


def test_the_strict_contract_has_rows_only_where_it_differs() -> None:
    rows = [
        {"problem": "level1/a.py", "contract": DEFAULT, "allow_tf32": True},
        {"problem": "level1/b.py", "contract": DEFAULT, "allow_tf32": False},
    ]
    assert has_own_row(STRICT, rows, "level1/a.py") and not has_own_row(STRICT, rows, "level1/b.py")
    assert has_own_row(DEFAULT, rows, "level1/b.py") and has_own_row(BFLOAT16, rows, "level1/b.py")
