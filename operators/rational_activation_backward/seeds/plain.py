"""Rational activation and its gradients, both polynomials by Horner's rule; sums without atomics.

With P over Q: grad_x = grad_y (P' - P/Q Q') / Q, the gradient of a_i is the sum of grad_y x^i / Q, that of b_j the
sum of -grad_y P/Q sign(b_j) |x|^j / Q. Every program of the second kernel leaves ten partial sums, which a third one
adds up.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rational_kernel(
    x_ptr, numerator_ptr, denominator_ptr, y_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    group, n_groups = tl.program_id(1), tl.num_programs(1)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(2) * BLOCK_N + tl.arange(0, BLOCK_N)
    mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
    offsets = (rows.to(tl.int64)[:, None] * n_groups + group) * n_cols + cols[None, :]
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    above = tl.load(numerator_ptr + group * 6 + 5) * x
    above = (above + tl.load(numerator_ptr + group * 6 + 4)) * x
    above = (above + tl.load(numerator_ptr + group * 6 + 3)) * x
    above = (above + tl.load(numerator_ptr + group * 6 + 2)) * x
    above = (above + tl.load(numerator_ptr + group * 6 + 1)) * x
    above = above + tl.load(numerator_ptr + group * 6)
    size = tl.abs(x)
    below = tl.abs(tl.load(denominator_ptr + group * 4 + 3)) * size
    below = (below + tl.abs(tl.load(denominator_ptr + group * 4 + 2))) * size
    below = (below + tl.abs(tl.load(denominator_ptr + group * 4 + 1))) * size
    below = (below + tl.abs(tl.load(denominator_ptr + group * 4))) * size
    tl.store(y_ptr + offsets, above / (below + 1.0), mask=mask)


@triton.jit
def rational_gradients_kernel(
    grad_y_ptr,
    x_ptr,
    numerator_ptr,
    denominator_ptr,
    grad_x_ptr,
    partial_ptr,
    n_rows,
    n_cols,
    ROWS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    group, n_groups, n_parts = tl.program_id(1), tl.num_programs(1), tl.num_programs(0)
    a1 = tl.load(numerator_ptr + group * 6 + 1)
    a2 = tl.load(numerator_ptr + group * 6 + 2)
    a3 = tl.load(numerator_ptr + group * 6 + 3)
    a4 = tl.load(numerator_ptr + group * 6 + 4)
    a5 = tl.load(numerator_ptr + group * 6 + 5)
    b1 = tl.abs(tl.load(denominator_ptr + group * 4))
    b2 = tl.abs(tl.load(denominator_ptr + group * 4 + 1))
    b3 = tl.abs(tl.load(denominator_ptr + group * 4 + 2))
    b4 = tl.abs(tl.load(denominator_ptr + group * 4 + 3))
    a0 = tl.load(numerator_ptr + group * 6)
    # Ten sums, in a block of sixteen: of grad_y x^i / Q, then of -grad_y P/Q |x|^j / Q.
    places = tl.arange(0, 16)
    sums = tl.zeros((16,), dtype=tl.float32)
    for start in range(0, ROWS, BLOCK_M):
        rows = tl.program_id(0) * ROWS + start + tl.arange(0, BLOCK_M)
        for left in range(0, n_cols, BLOCK_N):
            cols = left + tl.arange(0, BLOCK_N)
            mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
            offsets = (rows.to(tl.int64)[:, None] * n_groups + group) * n_cols + cols[None, :]
            x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            grad_y = tl.load(grad_y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
            size = tl.abs(x)
            sign = tl.where(x > 0, 1.0, tl.where(x < 0, -1.0, 0.0))
            above = ((((a5 * x + a4) * x + a3) * x + a2) * x + a1) * x + a0
            below = (((b4 * size + b3) * size + b2) * size + b1) * size + 1.0
            slope_above = (((5.0 * a5 * x + 4.0 * a4) * x + 3.0 * a3) * x + 2.0 * a2) * x + a1
            slope_below = (((4.0 * b4 * size + 3.0 * b3) * size + 2.0 * b2) * size + b1) * sign
            y, share = above / below, grad_y / below
            tl.store(grad_x_ptr + offsets, share * (slope_above - y * slope_below), mask=mask)
            term = share
            for power in tl.static_range(6):
                sums += tl.where(places == power, tl.sum(tl.sum(term, axis=1), axis=0), 0.0)
                term = term * x
            term = -share * y * size
            for power in tl.static_range(4):
                sums += tl.where(places == 6 + power, tl.sum(tl.sum(term, axis=1), axis=0), 0.0)
                term = term * size
    base = (group * 10 + places) * n_parts + tl.program_id(0)
    tl.store(partial_ptr + base, sums, mask=places < 10)


@triton.jit
def rational_sums_kernel(
    partial_ptr, denominator_ptr, grad_numerator_ptr, grad_denominator_ptr, n_parts, BLOCK: tl.constexpr
):
    group, place = tl.program_id(0), tl.program_id(1)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_parts, BLOCK):
        parts = start + tl.arange(0, BLOCK)
        total += tl.load(partial_ptr + (group * 10 + place) * n_parts + parts, mask=parts < n_parts, other=0.0)
    result = tl.sum(total, axis=0)
    if place < 6:
        tl.store(grad_numerator_ptr + group * 6 + place, result)
    else:
        b = tl.load(denominator_ptr + group * 4 + place - 6)
        sign = tl.where(b > 0, 1.0, tl.where(b < 0, -1.0, 0.0))
        tl.store(grad_denominator_ptr + group * 4 + place - 6, result * sign)


def rational_activation(x, numerator, denominator):
    n_rows, n_groups, n_cols = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(n_rows, 16), n_groups, triton.cdiv(n_cols, 128))
    rational_kernel[grid](x, numerator, denominator, y, n_rows, n_cols, BLOCK_M=16, BLOCK_N=128, num_warps=4)
    return y


def rational_activation_backward(grad_y, x, numerator, denominator, y):
    n_rows, n_groups, n_cols = x.shape
    grad_x, grad_numerator, grad_denominator = (torch.empty_like(item) for item in (x, numerator, denominator))
    n_parts = triton.cdiv(n_rows, 64)
    partial = torch.empty((n_groups, 10, n_parts), dtype=torch.float32, device=x.device)
    rational_gradients_kernel[(n_parts, n_groups)](
        grad_y,
        x,
        numerator,
        denominator,
        grad_x,
        partial,
        n_rows,
        n_cols,
        ROWS=64,
        BLOCK_M=16,
        BLOCK_N=128,
        num_warps=4,
    )
    rational_sums_kernel[(n_groups, 10)](
        partial, denominator, grad_numerator, grad_denominator, n_parts, BLOCK=256, num_warps=4
    )
    return grad_x, grad_numerator, grad_denominator
