"""Texts of the kernels of convolutions."""

import ast

import pytest

from workers.inductor_seeds.convolution_kernels import EXTENTS, LETTERS, PACK, PRODUCT, ROWS, SUM, complete


@pytest.mark.parametrize("text", [PACK, PRODUCT, ROWS, SUM])
def test_common_parts_stand_in_a_kernel_once_per_axis(text: str):
    completed = complete(text)
    edges = [name for name in (f"EDGE_{letter}" for letter in LETTERS) if completed.count(f"if {name}:") == 1]
    assert len(edges) == (0 if text is ROWS else len(EXTENTS)), completed
    assert ast.unparse(ast.parse(completed).body[0]).startswith("@triton.jit")


@pytest.mark.parametrize("text", [PRODUCT, ROWS, SUM])
def test_a_kernel_ends_with_its_store(text: str):
    (function,) = ast.parse(complete(text)).body
    assert isinstance(function, ast.FunctionDef)
    assert ast.unparse(function.body[-1]) == "tl.store(y_ptr + target, total, is_target)"
    assert [item.arg for item in function.args.args[:3]] == ["x_ptr", "weight_ptr", "y_ptr"]
