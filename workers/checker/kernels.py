"""The Triton kernels of the checker. Jobs come in tables of 64-bit addresses in the card's memory."""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

_jit: Callable[[Callable[..., None]], Any] = triton.jit

WORDS = tl.constexpr(2048)
"""Words of eight bytes that a program of `differences` compares."""
ROWS, COLUMNS = tl.constexpr(8), tl.constexpr(128)
"""Tile of `measure`: 8 elements a thread, with five sums for each in registers. With 16, 33 MB of bfloat16 took 42 us
on an H200 in place of 26."""
SPAN = tl.constexpr(8192)
"""Columns a program of `measure`: longer rows are shared among programs."""


@_jit
def differences(table: tl.tensor, counts: tl.tensor, size: tl.tensor) -> None:
    """Rows of (address, address), each a multiple of 8: adds the words that differ to a counter a row.

    `size` is in bytes; words are eight bytes, what is left over is compared byte by byte. One program along x takes
    WORDS words, one along y a row.
    """
    job = tl.program_id(1)
    left, right = tl.load(table + 2 * job), tl.load(table + 2 * job + 1)
    word = tl.program_id(0).to(tl.int64) * WORDS + tl.arange(0, WORDS)
    inside = word < size // 8
    one = tl.load(left.to(tl.pointer_type(tl.int64)) + word, mask=inside, other=0)
    other = tl.load(right.to(tl.pointer_type(tl.int64)) + word, mask=inside, other=0)
    count = tl.sum((one != other).to(tl.int32), 0)
    if tl.program_id(0) == 0:
        byte = size // 8 * 8 + tl.arange(0, 8)
        one_byte = tl.load(left.to(tl.pointer_type(tl.int8)) + byte, mask=byte < size, other=0)
        other_byte = tl.load(right.to(tl.pointer_type(tl.int8)) + byte, mask=byte < size, other=0)
        count += tl.sum((one_byte != other_byte).to(tl.int32), 0)
    if count > 0:
        tl.atomic_add(counts + job, count)


@_jit
def measure(
    table: tl.tensor,
    measures: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    own: tl.tensor,
    dtype: tl.constexpr,
) -> None:
    """Rows of (output, values, inverse), addresses that are multiples of 16: measures outputs against answers.

    Outputs and values are (rows, columns), contiguous; values and inverse are float32 where outputs are narrower than
    that, otherwise float64. A program takes ROWS rows along x, SPAN columns along y and one job along z. For each row
    it writes, in this order, the sum of squared errors, the sum of errors x values, the largest error over what the
    element may miss, how many miss more than half of that, and how many are NaN or infinite where the answer is not, or
    otherwise than there: float32, (5, jobs, spans, rows). Errors and values are times `inverse`.
    """
    job, span = tl.program_id(2), tl.program_id(1)
    kept: tl.constexpr = tl.float64 if dtype.primitive_bitwidth >= 32 else tl.float32
    outputs = tl.multiple_of(tl.load(table + 3 * job).to(tl.pointer_type(dtype)), 16)
    values = tl.multiple_of(tl.load(table + 3 * job + 1).to(tl.pointer_type(kept)), 16)
    inverses = tl.load(table + 3 * job + 2).to(tl.pointer_type(kept))
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inverse = tl.load(inverses + row, mask=row < rows, other=1.0)[:, None]
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    products = tl.zeros((ROWS, COLUMNS), tl.float32)
    worst = tl.zeros((ROWS, COLUMNS), tl.float32)
    crowd, strange = tl.zeros((ROWS, COLUMNS), tl.int32), tl.zeros((ROWS, COLUMNS), tl.int32)
    for start in range(span * SPAN, tl.minimum(span * SPAN + SPAN, columns), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = row.to(tl.int64)[:, None] * columns + column[None, :]
        got = tl.load(outputs + place, mask=inside, other=0.0).to(kept)
        value = tl.load(values + place, mask=inside, other=0.0)
        usable = (tl.abs(got) < float("inf")) & (tl.abs(value) < float("inf"))
        alike = (got == value) | ((got != got) & (value != value))
        error = tl.where(usable, (got - value) * inverse, 0.0).to(tl.float32)
        scaled = tl.where(usable, value * inverse, 0.0).to(tl.float32)
        ratio = tl.abs(error) / tl.maximum(own * tl.abs(scaled), 1.0)
        squares += error * error
        products += error * scaled
        worst = tl.maximum(worst, ratio)
        crowd += (ratio > 0.5).to(tl.int32)
        strange += (~(usable | alike)).to(tl.int32)
    plane = tl.num_programs(2).to(tl.int64) * tl.num_programs(1) * rows
    target = measures + (job.to(tl.int64) * tl.num_programs(1) + span) * rows + row
    tl.store(target, tl.sum(squares, 1), mask=row < rows)
    tl.store(target + plane, tl.sum(products, 1), mask=row < rows)
    tl.store(target + 2 * plane, tl.max(worst, 1), mask=row < rows)
    tl.store(target + 3 * plane, tl.sum(crowd, 1).to(tl.float32), mask=row < rows)
    tl.store(target + 4 * plane, tl.sum(strange, 1).to(tl.float32), mask=row < rows)
