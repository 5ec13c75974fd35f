"""Conditions in kernels, and the names that they bind."""

import pytest

from tests.workers.interpreter.stage import interpret_body
from workers.interpreter.conditions import connect, negate, nested_names

CASES = {
    "y = tl.where((x > 0) and (x < 3), 1.0, 0.0)": [0, 1, 1, 0],
    "y = tl.where((x < 1) or (x > 2), 1.0, 0.0)": [1, 0, 0, 1],
    "y = tl.where(not (x > 1), 1.0, 0.0)": [1, 1, 0, 0],
    "y = x\n    if FLAG and pid == 0:\n        y = x + 1": [1, 2, 3, 4],
    "y = x\n    if not FLAG or pid > 0:\n        y = x + 1": [0, 1, 2, 3],
    "y = x\n    n = 3\n    while n > 0:\n        y += n\n        n -= 1": [6, 7, 8, 9],
}


@pytest.mark.parametrize("body", CASES)
def test_what_decides_is_the_device_s_or_the_compiler_s(body: str) -> None:
    assert interpret_body(body).tolist() == CASES[body]


@pytest.mark.parametrize("body", ["y = x\n    if x > 1:\n        y = x + 1", "y = x\n    while x < 9:\n        x += 1"])
def test_a_block_decides_nothing(body: str) -> None:
    with pytest.raises(AssertionError, match="a whole block as a condition"):
        assert interpret_body(body) is None


def test_an_error_that_is_raised_all_the_same_stops_the_interpreter() -> None:
    with pytest.raises(AssertionError, match="the interpreter stopped with ValueError: not these"):
        assert interpret_body("y = x\n    if FLAG:\n        raise ValueError('not these')") is None


@pytest.mark.parametrize(("holds", "names"), [(True, ["a", "b"]), (False, ["c"])])
def test_a_condition_of_the_compiler_s_binds_what_its_branch_does(holds: bool, names: list[str]) -> None:
    assert nested_names(lambda: [holds, 7], lambda: holds, lambda: ["a", "b"], lambda: ["c"]) == names


def test_plain_operands_are_connected_as_python_does() -> None:
    assert connect("logical_and", False, lambda: 1, lambda: 0, lambda: 1 // 0) == 0
    assert connect("logical_or", True, lambda: 0, lambda: 2, lambda: 1 // 0) == 2
    assert negate(0) is True
