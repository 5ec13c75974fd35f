"""The Triton kernels of the oracle. Jobs come in tables of 64-bit addresses in the card's memory."""

from collections.abc import Callable
from typing import Any

import triton
import triton.language as tl

from workers.checks import bias, error_ratio

_jit: Callable[[Callable[..., object]], Any] = triton.jit

WORDS = tl.constexpr(2048)
"""Words of eight bytes per program of `differences`."""
ROWS, COLUMNS = tl.constexpr(8), tl.constexpr(128)
"""Tile of `measure`: 8 elements per thread, with five sums for each in registers. With 16, 33 MB of bfloat16 took 42 us
on an H200 instead of 26."""
SPAN = tl.constexpr(8192)
"""Columns per program of `measure`: longer rows are shared among programs."""
SIFTED = tl.constexpr(1024)
"""Rows that a program of `sift` holds at once."""
FEW = tl.constexpr(error_ratio.FRACTION)
LEAST_ROWS, DEVIATIONS, SPREAD = (tl.constexpr(each) for each in (bias.ROWS, bias.DEVIATIONS, bias.SPREAD))


@_jit
def differences(table: tl.tensor, counts: tl.tensor, size: tl.tensor) -> None:
    """Add the words that differ to a counter per row. Rows are (address, address), each a multiple of 8.

    `size` is in bytes. Words are eight bytes; the remainder is compared byte by byte. One program along x takes WORDS
    words, one along y a row.
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
def _beyond_rounding(got: tl.tensor, value: tl.tensor, bits: tl.constexpr) -> tl.tensor:
    """Return the distance of float32 values to the nearest ones that round to a float8; the sign means nothing.

    `bits` is the length of its mantissa. The smallest of its values are as far apart as its exponents then begin.
    """
    least: tl.constexpr = 0.5 ** (2 ** (6 - bits) - 1 + bits)
    size = tl.abs(got)
    raw = size.to(tl.int32, bitcast=True)
    power = (raw & 0x7F800000).to(tl.float32, bitcast=True)
    above = tl.maximum(power * 0.5 ** (bits + 1), least)
    # Values below a power of two are half as far apart as those above it.
    below = tl.maximum(power * tl.where((raw & 0x7FFFFF) == 0, 0.5 ** (bits + 2), 0.5 ** (bits + 1)), least)
    turned = tl.where(got < 0, -value, value)
    return tl.minimum(tl.maximum(turned, size - below), size + above) - turned


@_jit
def _is_finite(value: tl.tensor) -> tl.tensor:
    return tl.abs(value) < float("inf")


@_jit
def _compared(
    got: tl.tensor, value: tl.tensor, inverse: tl.tensor, own: tl.tensor, bits: tl.constexpr
) -> tuple[tl.tensor, ...]:
    """Return per element, times `inverse`: its error, that in products, its value; and 1 if it is strange."""
    usable = _is_finite(got) & _is_finite(value)
    alike = (got == value) | ((got != got) & (value != value))
    error = tl.where(usable, (got - value) * inverse, 0.0).to(tl.float32)
    scaled = tl.where(usable, value * inverse, 0.0).to(tl.float32)
    missed = error
    if bits > 0:
        missed = tl.where(usable, _beyond_rounding(got, value, bits) * inverse, 0.0)
        error = tl.where(tl.abs(missed) > 0.5 * own * tl.abs(scaled), error, 0.0)
    return missed, error, scaled, (~(usable | alike)).to(tl.int32)


@_jit
def measure(
    table: tl.tensor,
    measures: tl.tensor,
    rows: tl.tensor,
    columns: tl.tensor,
    own: tl.tensor,
    dtype: tl.constexpr,
    bits: tl.constexpr,
) -> None:
    """Measure outputs against answers. Rows are (output, values, inverse), addresses that are multiples of 16.

    Outputs and values are (rows, columns), contiguous; values and inverse are float32 for narrower outputs, else
    float64. A program takes ROWS rows along x, SPAN columns along y and one job along z. It writes five figures per
    row, float32, (5, jobs, spans, rows): the sum of squared errors, and that of errors x values;
        the largest error over the maximum error of its element;
        the number of elements off by over half of the row's worst bound and by roundoffs of their own value;
        the number of elements that are NaN or infinite where the answer is not, or differently.
    Errors and values are times `inverse`.
    With `bits`, outputs are of a float8 with that many mantissa bits, and errors exclude its rounding. Errors in
    products are whole, and zero if the rest is at most half of `own`.
    """
    job, span = tl.program_id(2), tl.program_id(1)
    kept: tl.constexpr = tl.float64 if dtype.primitive_bitwidth >= 32 else tl.float32
    outputs = tl.multiple_of(tl.load(table + 3 * job).to(tl.pointer_type(dtype)), 16)
    values = tl.multiple_of(tl.load(table + 3 * job + 1).to(tl.pointer_type(kept)), 16)
    inverses = tl.load(table + 3 * job + 2).to(tl.pointer_type(kept))
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    inverse = tl.load(inverses + row, mask=row < rows, other=1.0)[:, None]
    squares = tl.zeros((ROWS, COLUMNS), tl.float32)
    products, worst = squares, squares
    crowd, strange = tl.zeros((ROWS, COLUMNS), tl.int32), tl.zeros((ROWS, COLUMNS), tl.int32)
    for start in range(span * SPAN, tl.minimum(span * SPAN + SPAN, columns), COLUMNS):
        column = start + tl.arange(0, COLUMNS)
        inside = (row < rows)[:, None] & (column < columns)[None, :]
        place = row.to(tl.int64)[:, None] * columns + column[None, :]
        got = tl.load(outputs + place, mask=inside, other=0.0).to(kept)
        value = tl.load(values + place, mask=inside, other=0.0)
        missed, error, scaled, odd = _compared(got, value, inverse, own, bits)
        squares += missed * missed
        products += error * scaled
        worst = tl.maximum(worst, tl.abs(missed) / tl.maximum(own * tl.abs(scaled), 1.0))
        crowd += (tl.abs(missed) > tl.maximum(own * tl.abs(scaled), 0.5)).to(tl.int32)
        strange += odd
    plane = tl.num_programs(2).to(tl.int64) * tl.num_programs(1) * rows
    target = measures + (job.to(tl.int64) * tl.num_programs(1) + span) * rows + row
    tl.store(target, tl.sum(squares, 1), mask=row < rows)
    tl.store(target + plane, tl.sum(products, 1), mask=row < rows)
    tl.store(target + 2 * plane, tl.max(worst, 1), mask=row < rows)
    tl.store(target + 3 * plane, tl.sum(crowd, 1).to(tl.float32), mask=row < rows)
    tl.store(target + 4 * plane, tl.sum(strange, 1).to(tl.float32), mask=row < rows)


@_jit
def _larger(one: tl.tensor, other: tl.tensor) -> tl.tensor:
    """Return the larger of two; NaN if one of them is."""
    return tl.maximum(one, other, propagate_nan=tl.PropagateNan.ALL)


@_jit
def _gathered(
    place: tl.tensor, plane: tl.tensor, rows: tl.tensor, spans: tl.tensor, inside: tl.tensor
) -> tuple[tl.tensor, ...]:
    """Return the figures that `measure` wrote of some rows, all spans together: zeros of those that are not inside."""
    squares = tl.zeros(inside.shape, tl.float32)
    products, worst, crowd, strange = squares, squares, squares, squares
    for _ in range(0, spans):
        squares += tl.load(place, mask=inside, other=0.0)
        products += tl.load(place + plane, mask=inside, other=0.0)
        worst = _larger(worst, tl.load(place + 2 * plane, mask=inside, other=0.0))
        crowd += tl.load(place + 3 * plane, mask=inside, other=0.0)
        strange += tl.load(place + 4 * plane, mask=inside, other=0.0)
        place += rows
    return squares, products, worst, crowd, strange


@_jit
def _sifted_errors(
    entry: tl.tensor, source: tl.tensor, plane: tl.tensor, rows: tl.tensor, spans: tl.tensor, few: tl.tensor
) -> tl.tensor:
    """Return errors over bounds; infinite if too many elements are off too far, or one is strange."""
    allowed = tl.load(entry).to(tl.pointer_type(tl.float32))
    leeway = tl.load(entry + 2).to(tl.pointer_type(tl.float32))
    lane = tl.arange(0, SIFTED)
    most = tl.zeros((SIFTED,), tl.float32)
    eased, beyond, wild, wild_eased, crowded, odd = most, most, most, most, most, most
    for start in range(0, rows, SIFTED):
        row = start + lane
        inside = row < rows
        squares, _, worst, crowd, strange = _gathered(source + row, plane, rows, spans, inside)
        ratio = tl.sqrt(squares / tl.load(allowed + row, mask=inside, other=1.0))
        error = _larger(ratio, worst)
        ease = tl.load(leeway + row, mask=inside, other=1.0)
        less = _larger(ratio / ease, worst / tl.load(leeway + rows + row, mask=inside, other=1.0))
        most, eased = tl.maximum(most, error), tl.maximum(eased, less)
        wild += (~_is_finite(error)).to(tl.float32)
        wild_eased += (~_is_finite(less)).to(tl.float32)
        beyond += (ratio > 1).to(tl.float32)
        crowded += crowd
        odd += strange
    crowd = tl.sum(crowded, 0)
    is_eased = (crowd <= few) & (tl.sum(beyond, 0) <= rows * FEW)
    out = tl.where(is_eased, tl.sum(wild_eased, 0), tl.sum(wild, 0)) + tl.sum(odd, 0) > 0
    top = tl.where(is_eased, tl.max(eased, 0), tl.max(most, 0))
    return tl.where(out | (crowd > tl.maximum(few, 1.0)), float("inf"), top)


@_jit
def _sifted_bias(entry: tl.tensor, source: tl.tensor, plane: tl.tensor, rows: tl.tensor, spans: tl.tensor) -> tl.tensor:
    """Return the bias of errors over its limit; zero if there are too few rows to tell.

    Infinite if a row is too small to tell in float32. Rows that differ much could hide a bias: if the answer counts
    them all, they need a closer look too.
    """
    gains = tl.load(entry + 1).to(tl.pointer_type(tl.float32))
    limit = tl.load(entry + 3).to(tl.int32).to(tl.float32, bitcast=True)
    lane = tl.arange(0, SIFTED)
    slopes = tl.zeros((SIFTED,), tl.float32)
    usable, apart = slopes, slopes
    for start in range(0, rows, SIFTED):
        row = start + lane
        gain = tl.load(gains + row, mask=row < rows, other=0.0)
        slopes += gain * _gathered(source + row, plane, rows, spans, row < rows)[1]
        usable += (gain > 0).to(tl.float32)
    count = tl.sum(usable, 0)
    mean = tl.sum(slopes, 0) / count
    for start in range(0, rows, SIFTED):
        row = start + lane
        gain = tl.load(gains + row, mask=row < rows, other=0.0)
        away = gain * _gathered(source + row, plane, rows, spans, row < rows)[1] - mean
        apart += tl.where(gain > 0, away * away, 0.0)
    spread = tl.sqrt(tl.sum(apart, 0) / (count - 1))
    settled = tl.abs(mean) / _larger(limit, spread * DEVIATIONS / tl.sqrt(count))
    leaning = tl.where(tl.load(entry + 3) >> 32 != 0, settled, _larger(tl.abs(mean), spread / SPREAD) / limit)
    known = tl.where(leaning == leaning, leaning, float("inf"))
    return tl.where(count >= LEAST_ROWS, known, 0.0)


@_jit
def sift(
    table: tl.tensor, measures: tl.tensor, found: tl.tensor, rows: tl.tensor, spans: tl.tensor, few: tl.tensor
) -> None:
    """Compare errors and bias of outputs with the bounds of their answers: float32, (2, jobs).

    More than 1 needs a closer look. At most 1 passes `workers.checks.error_ratio`, `special_values` and `bias` too;
    they may forgive more.

    Rows are (squares, gains, leeway, limits): addresses of the fields of `workers.oracle.answers.FloatAnswer`, and in
    one word the bits of its `gain_limit` and, in the higher half, `widened`. `measures` is the result of `measure`.
    `few` is the number of elements that may be off by more than half of the worst bound. One program per job.
    """
    job = tl.program_id(0)
    entry = table + 4 * job
    plane = tl.num_programs(0).to(tl.int64) * spans * rows
    source = measures + job.to(tl.int64) * spans * rows
    tl.store(found + job, _sifted_errors(entry, source, plane, rows, spans, few))
    if rows < LEAST_ROWS:
        tl.store(found + tl.num_programs(0) + job, 0.0)
    else:
        tl.store(found + tl.num_programs(0) + job, _sifted_bias(entry, source, plane, rows, spans))
