"""Texts of problems under their contracts, and contracts that have rows of their own."""

from contextlib import closing
from pathlib import Path

import torch

from benchmarks.figures import LineLog, read_lines
from benchmarks.kernelbench_lot import ListedProblem
from benchmarks.kernelbench_prepare import (
    BFLOAT16,
    DEFAULT,
    NOT_PREPARED,
    PREPARED,
    STRICT,
    has_own_row,
    prepare,
    text_for,
)
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


async def test_a_problem_that_a_process_failed_at_is_tried_again(tmp_path: Path) -> None:
    (tmp_path / "level1").mkdir()
    (tmp_path / "level1" / "1_Number.py").write_text("x = 1")
    failed = {"problem": "level1/1_Number.py", "contract": DEFAULT, "reason": f"{NOT_PREPARED}it was killed"}
    with closing(LineLog(tmp_path / "made" / PREPARED)) as lines:
        lines.add(failed)
    for _ in range(2):
        await prepare(tmp_path, [ListedProblem("level1/1_Number.py", drawn=False)], [DEFAULT], tmp_path / "made")
    reasons = [row["reason"] for row in read_lines(tmp_path / "made" / PREPARED)]
    assert len(reasons) == 2 and reasons[1] and not reasons[1].startswith(NOT_PREPARED)


async def test_problems_are_prepared_side_by_side_each_once(tmp_path: Path) -> None:
    keys = ["level1/1_Linear.py", "level1/2_Loss.py", "level3/3_Linear.py"]
    for key, text in zip(keys, (LINEAR, "x = 1", LINEAR), strict=True):
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_text(text)
    problems = [ListedProblem(key, drawn=False) for key in keys]
    for _ in range(2):
        await prepare(tmp_path, problems, [DEFAULT, STRICT], tmp_path / "made", processes=2)
    rows = {row["problem"]: row for row in read_lines(tmp_path / "made" / PREPARED)}
    assert sorted(rows) == keys and len(read_lines(tmp_path / "made" / PREPARED)) == len(keys)
    assert [rows[key]["seeds"] > 0 for key in keys] == [True, False, True] and rows[keys[1]]["reason"]
    assert (tmp_path / "made" / DEFAULT / "level3_3_linear" / "operator.toml").exists()
