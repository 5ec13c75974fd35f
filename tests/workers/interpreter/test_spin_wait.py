"""Launches whose programs may wait for another."""

import pytest

from tests.workers.interpreter.stage import HEADER
from tests.workers.interpreter.test_translation import _translate
from workers.interpreter.spin_wait import may_wait
from workers.protocol import Launch

SOURCE = (
    HEADER
    + """
@triton.jit
def spin(x):
    while tl.load(x) == 0:
        pass
    return x


again = spin


@triton.jit
def helper(x):
    return (x is not None) and again(x)


@triton.jit
def plain(x):
    tl.store(x, 1)


@triton.jit
def waits(x):
    spin(x)


@triton.jit
def waits_further_down(x):
    helper(x)


@triton.jit
def calls_what_it_is_given(x, FUNCTION: tl.constexpr):
    FUNCTION(x)
"""
)


def launch(function, **constants):
    return Launch(
        kernel="0" * 64, grid=(1, 1, 1), arguments=(), function=function, parameters=(), constants=constants, line=1
    )


@pytest.mark.parametrize(
    ("function", "constants", "waits"),
    [
        ("plain", {}, False),
        ("spin", {}, True),
        ("waits", {}, True),
        ("waits_further_down", {}, True),
        ("calls_what_it_is_given", {"FUNCTION": "function:spin"}, True),
        ("calls_what_it_is_given", {"FUNCTION": "function:plain"}, False),
        ("missing", {}, True),
    ],
)
def test_a_loop_counts_if_the_launch_gets_there(function, constants, waits):
    assert may_wait(_translate(SOURCE), launch(function, **constants)) is waits
