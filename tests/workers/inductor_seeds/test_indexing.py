"""Index expressions of kernels with a product, and axes of values."""

import ast

import pytest

from workers.inductor_seeds.indexing import (
    Axes,
    KnownValues,
    UnclearError,
    conjuncts,
    factors,
    index_line,
    is_call,
    is_cast,
    preferred,
    receiver,
    start_of,
    terms,
)


def tree(code: str) -> ast.expr:
    return ast.parse(code, mode="eval").body


def texts(nodes: list[ast.expr]) -> list[str]:
    return [ast.unparse(node) for node in nodes]


def test_sums_products_and_masks_are_taken_apart():
    assert texts(terms(tree("p + (a + b * c)"))) == ["p", "a", "b * c"]
    assert texts(factors(tree("a * b * (c + 1)"))) == ["a", "b", "c + 1"]
    assert texts(conjuncts(tree("a & (b & (c < 1))"))) == ["a", "b", "c < 1"]
    assert conjuncts(tree("None")) == []


@pytest.mark.parametrize("code", ["tl.program_id(0) * YBLOCK", "tl.program_id(0) + XBLOCK", "ks0 * XBLOCK"])
def test_a_start_is_a_number_of_a_program_times_the_tile(code):
    assert ast.unparse(start_of("x", tree("tl.program_id(0).to(tl.int64) * XBLOCK"), short=True)) == (
        "tl.program_id(0) * XBLOCK"
    )
    with pytest.raises(UnclearError):
        start_of("x", tree(code), short=True)


def test_the_index_of_a_matrix_is_the_number_of_the_program():
    starts = {"zoffset": start_of("z", tree("tl.program_id(0).to(tl.int64) * ZBLOCK"), short=True)}
    line = tree("zoffset + tl.arange(0, ZBLOCK).to(tl.int64)")
    assert ast.unparse(index_line("z", line, starts, short=True)) == "tl.program_id(0)"


@pytest.mark.parametrize("code", ["r0_base + 1", "r0_offset + tl.arange(0, XBLOCK)[None, None, :]", "r0_offset * 2"])
def test_an_index_that_is_anything_else_is_unclear(code):
    with pytest.raises(UnclearError):
        index_line("r", tree(code), {"r0_base": tree("tl.arange(0, R0_BLOCK)[None, None, :]")}, short=True)


def test_the_rows_of_a_tile_are_neighbours_in_memory():
    load = "tl.load(p + (r0_index + ks0 * xindex))\ntl.load(q + (xindex + r0_index * ks0))\n"
    body = ast.parse(
        "def f():\n    tl.load(p + (r0_index + ks0 * yindex))\n    " + load.replace("\n", "\n    ") + "pass"
    )
    function = body.body[0]
    assert isinstance(function, ast.FunctionDef)
    assert preferred(function) == {frozenset("yr"): "yr"}


def axes(code: str) -> str:
    """Return the sorted axes of an expression over the masks and the parameter `p`."""
    function = ast.parse("def f(p): pass").body[0]
    assert isinstance(function, ast.FunctionDef)
    return "".join(sorted(KnownValues(function).axes(ast.parse(code, mode="eval").body)))


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("1.5 * p", ""),
        ("ymask & zmask", "y"),
        ("tl.where(xmask, p, tl.exp(-ymask))", "xy"),
        ("(r0_mask > 0).to(tl.int32)", "r"),
        ("tl.load(p, xmask & r0_mask, other=0.0)", "rx"),
        ("tl.full([1, 1, 1], 2.0, tl.float32)", ""),
        ("tl.full([YBLOCK, XBLOCK], 0, tl.float32)[:, :, None]", "xy"),
        ("tl.dot(tl.reshape(ymask & r0_mask, [YBLOCK, R0_BLOCK]), tl.trans(xmask & r0_mask))", "xy"),
    ],
)
def test_axes(code, expected):
    assert axes(code) == expected


@pytest.mark.parametrize(
    "code", ["tl.sum(ymask, 0)", "other", "tl.reshape(ymask, [YBLOCK, XBLOCK])", "ymask[:, None]", "[1]"]
)
def test_what_is_not_known_is_unclear(code):
    with pytest.raises(UnclearError):
        axes(code)


def test_calls_and_casts():
    cast = ast.parse("tl.exp(a).to(tl.float32)", mode="eval").body
    assert is_cast(cast) and is_call(receiver(cast), "tl.exp") and not is_call(cast, "tl.exp")
    assert Axes("ab") == frozenset("ba")
