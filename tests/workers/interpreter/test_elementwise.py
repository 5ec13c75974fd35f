"""Functions of single elements are given scalars, and may ask for it."""

import pytest
import torch

from tests.workers.interpreter.stage import Out, X, interpret

SOURCE = """
@triton.jit
def one(a, b):
    r = a + b
    if len(a.shape) == 0:
        r = a * b
    return r


@triton.jit
def both(a, b):
    return a * 2.0, 1.0 + b * 0.0


@triton.jit
def place(a):
    return a + tl.program_id(0)


@triton.jit
def larger(a, b):
    if a * a >= b * b:
        return a
    else:
        if b < 0:
            return b
        return b * 1.0


@triton.jit
def kernel(a0, a1):
    i = tl.arange(0, 4)
    x = tl.load(a0 + i)
    tl.store(a1 + i, {})
"""
CASES = {
    "tl.map_elementwise(one, x, x + 1)": [0, 2, 6, 12],
    "tl.map_elementwise(one, x, 3.0 + tl.program_id(0))": [0, 3, 6, 9],
    "tl.map_elementwise(both, x, x)[0] + tl.map_elementwise(both, x, x)[1]": [1, 3, 5, 7],
    "tl.reduce(x + 1, 0, one)": [24, 24, 24, 24],
    "x.reduce(0, one)": [0, 0, 0, 0],
    "tl.reduce(x - 2.0, 0, larger)": [-2, -2, -2, -2],
    "tl.map_elementwise(larger, x, 3.0 - x)": [3, 2, 2, 3],
    "tl.associative_scan(x - 1.0, 0, larger)": [-1, -1, -1, 2],
    "tl.associative_scan(x + 1, 0, one)": [1, 2, 6, 24],
    "tl.map_elementwise(one, tl.program_id(0) + 2, tl.program_id(0) + 3) + x": [6, 7, 8, 9],
}


@pytest.mark.parametrize("expression", CASES)
def test_functions_see_scalars(expression: str) -> None:
    assert interpret(SOURCE.format(expression), X, Out((4,))).only.tolist() == CASES[expression]


def test_a_scalar_of_the_program_is_not_mistaken_for_a_block() -> None:
    run = interpret(SOURCE.format("tl.map_elementwise(place, x)"), X, Out((4,)), grid=(4,))
    assert run.reply.outcome == "not_interpretable"
    assert "asks for the program's place" in run.reply.reason


def test_a_function_of_single_elements_that_stops_is_left() -> None:
    source = SOURCE.format("x").replace("    tl.store(", "    if tl.program_id(0) >= 0:\n        x += 1\n    tl.store(")
    assert torch.equal(interpret(source, X, Out((4,)), grid=(2,)).only, X + 1)
