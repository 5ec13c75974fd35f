"""A draft with its float32 products on the matrix units."""

import ast

import pytest

from service.fleet.matrix_seed import number, on_matrix_units
from service.operators.catalogue import load_operator
from tests.service.emitters.samples import seed

EXACT = seed("matmul").replace("tl.dot(a, b, total)", "tl.dot(a, b, total, input_precision='ieee')")
EXACT = EXACT.replace("M, K = a.shape\n", "M = a.shape[0]\n    K = a.shape[1]\n")


def at(m, n, k, dtype="float32"):
    """The catalogue's product at one shape."""
    operator = load_operator("matmul")
    shape = operator.shapes[0].model_copy(update={"dims": {"M": m, "N": n, "K": k}})
    inputs = tuple(item.model_copy(update={"dtype": dtype}) for item in operator.inputs)
    return operator.model_copy(update={"shapes": (shape,), "inputs": inputs})


def test_operands_that_are_read_often_are_split_ahead_for_wide_tiles():
    made = on_matrix_units(EXACT, at(1024, 8192, 8192))
    assert made is not None and made.count("split_kernel[") == 2 and "ieee" not in made and "tl.swizzle2d" in made
    assert made.count("triton.cdiv(M, 128)") == made.count("triton.cdiv(N, 128)") == 1
    assert made.count("BLOCK_M=128, BLOCK_N=128") == made.count("GROUP=8, num_warps=8, num_stages=3") == 1


def test_operands_that_are_computed_as_float32_are_split_too():
    scratch = "    w = torch.empty((K, N), dtype={}, device=a.device)\n    matmul_kernel["
    computed = EXACT.replace("    matmul_kernel[", scratch).replace("(a, b, c,", "(a, w, c,")
    assert "w_parts" not in str(on_matrix_units(computed.replace("{}", "torch.bfloat16"), at(1024, 8192, 8192)))
    for dtype in ("torch.float32", "a.dtype"):
        assert str(on_matrix_units(computed.replace("{}", dtype), at(1024, 8192, 8192))).count("split_kernel[") == 2


@pytest.mark.parametrize(
    ("m", "tile"), [(4096, "BLOCK_M=128, BLOCK_N=256, BLOCK_K=64"), (512, "BLOCK_N=64, BLOCK_K=32")]
)
def test_products_of_16_bits_have_wide_tiles_where_these_fill_the_card(m, tile):
    draft = EXACT.replace("BLOCK_M=64", "BLOCK_M=128").replace("triton.cdiv(M, 64)", "triton.cdiv(M, 128)")
    made = on_matrix_units(draft, at(m, 2048, 4096, "bfloat16"))
    assert made is not None and tile in made and "tf32" not in made and "GROUP=8, num_warps=8" in made


def test_products_of_few_tiles_split_their_sums_instead():
    made = on_matrix_units(EXACT.replace("num_warps=4", "num_warps=8"), at(256, 256, 2**19))
    assert made is not None and "input_precision='tf32x3'" in made and "split_kernel" not in made
    assert "PARTS=16" in made and "num_warps=4, num_stages=3" in made


def test_kernels_of_several_products_keep_their_options():
    twice = EXACT.replace(
        "total = tl.dot(a, b, total",
        "total += tl.dot(a, b, input_precision='ieee')\n        total = tl.dot(a, b, total",
    )
    made = on_matrix_units(twice.replace("num_warps=4", "num_warps=8, num_stages=2"), at(1024, 8192, 8192))
    assert (
        made is not None and made.count("tf32x3") == 2 and "num_warps=8, num_stages=2" in made and "split_k" not in made
    )


def test_short_sums_of_few_tiles_are_left_whole():
    made = on_matrix_units(EXACT, at(256, 256, 1024))
    assert made is not None and "PARTS" not in made and "tf32x3" in made


def test_a_draft_without_products_has_no_second():
    assert on_matrix_units(seed("rmsnorm"), at(64, 64, 64)) is None


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("triton.cdiv(a, 64) * 2 - 1", 5),
        ("max(a, 7)", 130),
        ("-a // 4", -33),
        ("a // b", None),
        ("f(a)", None),
        ("c", None),
    ],
)
def test_numbers_of_a_host_are_read_and_never_run(code, value):
    assert number(ast.parse(code, mode="eval").body, {"a": 130, "b": 0}) == value
