"""Runs the kernels by Triton's interpreter on host memory, beside the same passes in torch; fails where they differ.

TRITON_INTERPRET=1 python -m tests.workers.oracle.interpreted
"""

from dataclasses import replace
from math import prod

import torch

from tests.workers.oracle.paper import measure_one
from tests.workers.oracle.sieve import Measures, margins
from workers.checks import error_ratio
from workers.device_kernels.compilation import SUM_BLOCK
from workers.device_kernels.kernels import sum_up
from workers.float8 import is_float8
from workers.oracle import kernels
from workers.oracle.answers import FloatAnswer
from workers.oracle.card import limits
from workers.oracle.compilation import measure_constants

DTYPES = ("float16", "float32", "float64", "float8_e4m3fn", "float8_e5m2")
PRODUCTS_WITHIN = 1e-5
"""Share of absolute products by which float32 sums of up to 9000 signed ones may differ: most cancel."""


def table(*rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
    return torch.tensor([tensor.data_ptr() for row in rows for tensor in row])


def compare_differences(size: int) -> None:
    one = torch.randint(0, 256, (size + 8,), dtype=torch.uint8)
    others = [one.clone() for _ in range(4)]
    others[1][0] ^= 1
    others[2][size - 1] ^= 1
    others[3][size] ^= 1
    counts = torch.zeros(4, dtype=torch.int32)
    grid = (max(1, -(-(size // 8) // kernels.WORDS.value)), 4)
    kernels.differences[grid](table(*((one, other) for other in others)), counts, size)
    assert (counts > 0).tolist() == [False, True, True, False]


def compare_sums(size: int) -> None:
    """Equal memory adds up to equal sums; a changed byte, places that change and signs that flip to others."""
    one = torch.randint(-100, 100, (size + 16,), dtype=torch.int8)
    others = [one.clone() for _ in range(8)]
    others[1][0] ^= 1
    others[2][size - 1] ^= 64
    others[3][size] ^= 1  # Beyond its end.
    others[4][:8], others[4][8:16] = one[8:16], one[:8]
    others[5][7:16:8] ^= -128
    others[6][:16] += 1
    sums = torch.zeros(10, dtype=torch.int64)
    rows = [[other.data_ptr(), size, sums[index:].data_ptr()] for index, other in enumerate((*others, one))]
    blocks = max(1, -(-size // (8 * SUM_BLOCK)))
    sum_up[blocks, len(rows)](torch.tensor(rows), 2**62 + 12345, SUM_BLOCK)
    other_key = torch.zeros(1, dtype=torch.int64)
    sum_up[blocks, 1](torch.tensor([one.data_ptr(), size, other_key.data_ptr()]), 2**61 + 1, SUM_BLOCK)
    assert len(sums[[0, 1, 2, 4, 5, 6]].unique()) == 6 - 2 * (size < 16)
    assert (sums[[3, 7, 8]] == sums[0]).all() and sums[0] != other_key


def compare_measures(dtype: str, rows: int, columns: int) -> None:
    output = getattr(torch, dtype)
    kept = torch.float32 if output.itemsize < 4 else torch.float64
    values = torch.randn(2, rows, columns).to(kept)
    values.flatten()[1::7] *= 2.0 ** torch.randint(-20, 7, values.flatten()[1::7].shape)
    outputs = (values * (1 + (0.1 if is_float8(output) else 1e-3) * torch.randn(2, rows, columns))).to(output)
    outputs[0, 0, 0] = values[0, 0, 0] = float("nan") if dtype == "float8_e4m3fn" else float("inf")
    outputs[1, -1, -1] = float("nan")
    answers = [answer(each, output) for each in values]
    spans = -(-columns // kernels.SPAN.value)
    found = torch.empty(5, 2, spans, rows)
    seen = outputs.half() if is_float8(output) else outputs
    jobs = ((one, other.values, other.inverse) for one, other in zip(seen, answers, strict=True))
    grid = (-(-rows // kernels.ROWS.value), spans, 2)
    kernels.measure[grid](table(*jobs), found, rows, columns, answers[0].own, **measure_constants(dtype))
    for index, (one, other) in enumerate(zip(outputs, answers, strict=True)):
        squares, products, worst, crowd, strange = measure_one(one, other)
        torch.testing.assert_close(found[0, index].sum(0), squares)
        assert ((found[1, index].sum(0) - products).abs() <= PRODUCTS_WITHIN * spread(one, other)).all()
        torch.testing.assert_close(found[2, index].amax(0), worst)
        assert torch.equal(found[3, index].sum(0), crowd)
        assert torch.equal(found[4, index].sum(0), strange)
        assert strange.sum() == index


def spread(output: torch.Tensor, answer: FloatAnswer) -> torch.Tensor:
    """Most that the absolute products of a row's errors and values add up to, by Cauchy and Schwarz."""
    errors = (output.double() - answer.values) * answer.inverse[:, None]
    values = answer.values * answer.inverse[:, None]
    lengths = (each.nan_to_num(0.0, 0.0, 0.0).double().norm(dim=1) for each in (errors, values))
    return prod(lengths)


def compare_sieves(rows: int, spans: int, *, widened: bool) -> None:
    """Outputs that are right but for a tiny row, of many errors and of few, with a strange element, and with a bias."""
    measures = torch.rand(5, 6, spans, rows)
    measures[1] -= 0.5
    measures[2:] *= 0.4
    measures[3:] = 0
    measures[0, 1, 0, rows // 2] = measures[2, 5, 0, -1] = 40.0
    measures[3, 2, -1, 0] = 3000.0
    measures[4, 3, -1, 0] = 1.0
    measures[1, 4] += 2.0
    measures[2, 2, 0, 0] = float("nan")
    answers = [replace(answer(torch.zeros(rows, 1), torch.float16), gain_limit=0.01, widened=widened) for _ in range(6)]
    for each in answers:
        each.squares.uniform_(2.0, 3.0).mul_(spans)
        each.gains.uniform_(0.01, 0.02)
        each.gains[::3] = 0.0
        each.leeway.uniform_(20.0, 30.0)
    answers[0].gains[1] = torch.inf
    few = error_ratio.FRACTION * answers[0].values.numel()
    words = [[each.squares.data_ptr(), each.gains.data_ptr(), each.leeway.data_ptr(), limits(each)] for each in answers]
    found = torch.empty(2, 6)
    kernels.sift[(6,)](torch.tensor(words).flatten(), measures, found, rows, spans, few)
    squares, products, worst, crowd, strange = measures
    whole = Measures(squares.sum(1), products.sum(1), worst.amax(1), crowd.sum(1), strange.sum(1))
    expected = margins(whole, answers)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert expected[0].isinf().tolist() == [False, False, True, True, False, False]
    assert (expected[0, (0, 4)] < 1).all()
    assert (expected[1, 4] > 1) == (rows > 24), "two thirds of the rows say something"
    assert expected[1, 0].isinf() == (rows > 24), "a row is too small to tell"


def answer(values: torch.Tensor, dtype: torch.dtype) -> FloatAnswer:
    rows = len(values)
    return FloatAnswer(
        kind=(dtype, values.shape),
        values=values,
        inverse=torch.rand(rows).to(values.dtype) * 100 + 1,
        squares=torch.ones(rows),
        gains=torch.ones(rows),
        own=0.01,
        leeway=torch.ones(2, rows),
        gain_limit=1.0,
        widened=False,
    )


if __name__ == "__main__":
    for bytes_ in (1, 7, 8, 61, 4096, 20001):
        compare_differences(bytes_)
    for bytes_ in (16, 24, 61, 4096, 40001):
        compare_sums(bytes_)
    for rows_, spans_ in ((17, 1), (100, 3), (2500, 2)):
        for widened_ in (False, True):
            compare_sieves(rows_, spans_, widened=widened_)
    for name in DTYPES:
        for sizes in ((1, 1), (3, 40), (17, 130), (2, 9000)):
            compare_measures(name, *sizes)
