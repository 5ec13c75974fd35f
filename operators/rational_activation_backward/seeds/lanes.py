"""Rational activation and its gradients; each lane adds up its own ten sums until a program's last row.

With P over Q: grad_x = grad_y (P' - P/Q Q') / Q, the gradient of a_i is the sum of grad_y x^i / Q, that of b_j the
sum of -grad_y P/Q sign(b_j) |x|^j / Q. Eight neighbours lie in one lane and are added there; lanes are added up once
a program. Every program of the second kernel leaves ten partial sums, which a third one adds up.
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
def lane_sums(tile, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    return tl.sum(tl.reshape(tile, (BLOCK_M * BLOCK_N // 8, 8)), axis=1)


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
    a0 = tl.load(numerator_ptr + group * 6)
    a1 = tl.load(numerator_ptr + group * 6 + 1)
    a2 = tl.load(numerator_ptr + group * 6 + 2)
    a3 = tl.load(numerator_ptr + group * 6 + 3)
    a4 = tl.load(numerator_ptr + group * 6 + 4)
    a5 = tl.load(numerator_ptr + group * 6 + 5)
    b1 = tl.abs(tl.load(denominator_ptr + group * 4))
    b2 = tl.abs(tl.load(denominator_ptr + group * 4 + 1))
    b3 = tl.abs(tl.load(denominator_ptr + group * 4 + 2))
    b4 = tl.abs(tl.load(denominator_ptr + group * 4 + 3))
    p0 = tl.zeros((BLOCK_M * BLOCK_N // 8,), dtype=tl.float32)
    p1, p2, p3, p4, p5, q1, q2, q3, q4 = p0, p0, p0, p0, p0, p0, p0, p0, p0
    for left in range(0, n_cols, BLOCK_N):
        cols = left + tl.arange(0, BLOCK_N)
        for start in range(0, ROWS, BLOCK_M):
            rows = tl.program_id(0) * ROWS + start + tl.arange(0, BLOCK_M)
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
            inverse = 1.0 / below
            y, share = above * inverse, grad_y * inverse
            tl.store(grad_x_ptr + offsets, share * (slope_above - y * slope_below), mask=mask)
            x2 = x * x
            x3, x4 = x2 * x, x2 * x2
            p0 += lane_sums(share, BLOCK_M, BLOCK_N)
            p1 += lane_sums(share * x, BLOCK_M, BLOCK_N)
            p2 += lane_sums(share * x2, BLOCK_M, BLOCK_N)
            p3 += lane_sums(share * x3, BLOCK_M, BLOCK_N)
            p4 += lane_sums(share * x4, BLOCK_M, BLOCK_N)
            p5 += lane_sums(share * (x4 * x), BLOCK_M, BLOCK_N)
            fall = share * y
            q1 -= lane_sums(fall * size, BLOCK_M, BLOCK_N)
            q2 -= lane_sums(fall * x2, BLOCK_M, BLOCK_N)
            q3 -= lane_sums(fall * tl.abs(x3), BLOCK_M, BLOCK_N)
            q4 -= lane_sums(fall * x4, BLOCK_M, BLOCK_N)
    place = partial_ptr + group * 10 * n_parts + tl.program_id(0)
    tl.store(place, tl.sum(p0, axis=0))
    tl.store(place + n_parts, tl.sum(p1, axis=0))
    tl.store(place + 2 * n_parts, tl.sum(p2, axis=0))
    tl.store(place + 3 * n_parts, tl.sum(p3, axis=0))
    tl.store(place + 4 * n_parts, tl.sum(p4, axis=0))
    tl.store(place + 5 * n_parts, tl.sum(p5, axis=0))
    tl.store(place + 6 * n_parts, tl.sum(q1, axis=0))
    tl.store(place + 7 * n_parts, tl.sum(q2, axis=0))
    tl.store(place + 8 * n_parts, tl.sum(q3, axis=0))
    tl.store(place + 9 * n_parts, tl.sum(q4, axis=0))


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
    height, width = (16, 128) if n_cols % 128 == 0 else (64, 32)
    grid = (triton.cdiv(n_rows, height), n_groups, triton.cdiv(n_cols, width))
    rational_kernel[grid](x, numerator, denominator, y, n_rows, n_cols, BLOCK_M=height, BLOCK_N=width, num_warps=4)
    return y


def rational_activation_backward(grad_y, x, numerator, denominator, y):
    n_rows, n_groups, n_cols = x.shape
    grad_x, grad_numerator, grad_denominator = (torch.empty_like(item) for item in (x, numerator, denominator))
    n_parts = triton.cdiv(n_rows, 64)
    height, width = (8, 128) if n_cols % 128 == 0 else (32, 32)
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
        BLOCK_M=height,
        BLOCK_N=width,
        num_warps=4,
    )
    rational_sums_kernel[(n_groups, 10)](
        partial, denominator, grad_numerator, grad_denominator, n_parts, BLOCK=256, num_warps=4
    )
    return grad_x, grad_numerator, grad_denominator
