"""Products in parts, held against float64, and against what the instructions of a compiled kernel are."""

import numpy as np
import pytest
import torch

from tests.workers.interpreter.stage import Out, interpret
from tests.workers.interpreter.test_execution import MATMUL
from workers.interpreter.formats import round_to_tf32
from workers.interpreter.products import ORDERS, multiply, unit_work

RNG = np.random.default_rng(0)
LEFT, RIGHT = (RNG.standard_normal((1, 1, *shape)).astype(np.float32) for shape in ((48, 64), (64, 40)))
NOTHING = np.zeros((1, 1, 48, 40), dtype=np.float32)


def error(precision, left=LEFT, right=RIGHT):
    """Root mean square of the error, in roundoffs of float32, over that of the product."""
    exact = left.astype(np.float64) @ right.astype(np.float64)
    missed = multiply(left, right, NOTHING, precision) - exact
    return np.sqrt(np.square(missed).mean() / np.square(exact).mean()) * 2.0**24


def test_three_products_of_tf32_come_close_to_float32():
    assert error("IEEE") < error("TF32x3") < 1.5 * error("IEEE") < 6
    assert error("TF32") > 4000


def test_products_of_bfloat16_by_their_number():
    assert error("BF16x6") < 4
    assert 20 < error("BF16x3") < 200


def test_the_smallest_product_alone_is_left_out():
    """A large part times a small one is there in both orders; small times small, 2^-22 of the product, is not."""
    ones = np.full((1, 1, 16, 16), np.float32(1 + 2.0**-12))
    got = multiply(ones, ones, np.zeros_like(ones), "TF32x3")
    assert (got == 16 * (1 + 2.0**-11)).all()
    assert (multiply(ones, ones, np.zeros_like(ones), "TF32") == 16).all()


def test_parts_are_rounded_to_nearest_so_that_they_are_small():
    values = LEFT.ravel()
    rounded = round_to_tf32(values)
    assert not (rounded.view(np.uint32) & 0x1FFF).any()
    assert (np.abs(values - rounded) <= np.abs(values) * 2.0**-11).all()
    assert round_to_tf32(np.float32([1 + 2.0**-11, -1 - 2.0**-11])).tolist() == [1 + 2.0**-10, -1 - 2.0**-10]


@pytest.mark.parametrize("precision", ORDERS)
def test_infinities_and_nan_are_those_of_one_product(precision):
    left, right = LEFT.copy(), RIGHT.copy()
    left[..., 3, 5], left[..., 7, 2] = np.inf, np.nan
    right[..., 9, 4] = -np.inf
    with np.errstate(invalid="ignore"):
        got, exact = multiply(left, right, NOTHING, precision), left @ right
    assert (np.isnan(got) == np.isnan(exact)).all() and np.isnan(exact).any()
    assert (got[np.isinf(exact)] == exact[np.isinf(exact)]).all() and np.isinf(exact).any()
    assert (np.isinf(got) == np.isinf(exact)).all()


def test_an_accumulator_is_added_in_float32():
    total = np.full_like(NOTHING, 3.0)
    apart = multiply(LEFT, RIGHT, NOTHING, "TF32x3") + np.float32(3.0)
    assert (multiply(LEFT, RIGHT, total, "TF32x3") == apart).all()


def test_kernels_get_the_precision_that_they_ask_for():
    torch.manual_seed(1)
    a, b = torch.randn(50, 70), torch.randn(70, 37)
    tiles = {"BM": 16, "BN": 16, "BK": 32}
    runs = {
        precision: interpret(MATMUL, a, b, Out((50, 37)), 50, 37, 70, grid=(4, 3), PRECISION=precision, **tiles)
        for precision in ("ieee", "tf32x3", "bf16x6", "bf16x3", "tf32")
    }
    errors = [float((run.only - a.double() @ b.double()).square().mean()) for run in runs.values()]
    assert max(errors[:3]) < 1e-11 < errors[3] < 1e-7 < errors[4]
    work = [run.reply.finished[0].dot_operations for run in runs.values()]
    assert [count / work[0] for count in work] == [1, 6, 6, 3, 2]


def test_work_of_the_matrix_unit():
    assert [unit_work(name) for name in ("", "IEEE", "TF32", "TF32x3", "BF16x3", "BF16x6")] == [1, 1, 2, 6, 3, 6]
