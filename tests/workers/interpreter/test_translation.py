"""Kernels become functions of Python."""

import textwrap

import pytest

from workers.interpreter.extract import extract_module
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.translation import launchable, translate_candidate


def _translate(source: str):
    return translate_candidate(extract_module(textwrap.dedent(source)), "<candidate>", {}, {})


HEADER = """
    import triton
    import triton.language as tl
"""


def test_kernels_become_functions_by_their_global_names():
    functions = _translate(
        HEADER
        + """
    SIZE = 64

    @triton.autotune([triton.Config({}, num_warps=4)], key=[])
    @triton.jit
    def kernel(x_ptr, BLOCK: tl.constexpr):
        return helper(BLOCK + SIZE)

    @triton.jit
    def helper(x):
        return x
    """
    )
    assert {"kernel", "helper"} <= functions.keys()
    assert launchable(functions, "kernel")(None, 1) == 65


def test_statements_with_effects_are_left_out():
    functions = _translate(
        HEADER
        + """
    open("/nowhere/at/all")
    table = [print("host code ran")]

    @triton.jit
    def kernel(x_ptr):
        return 1
    """
    )
    assert launchable(functions, "kernel")(None) == 1


def test_what_is_not_there_cannot_be_launched():
    with pytest.raises(NotInterpretable):
        launchable(_translate(HEADER), "kernel")
