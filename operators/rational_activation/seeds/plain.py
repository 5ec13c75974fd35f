"""Rational activation, one program some rows of a group's channels, both polynomials by Horner's rule."""

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


def rational_activation(x, numerator, denominator):
    n_rows, n_groups, n_cols = x.shape
    y = torch.empty_like(x)
    grid = (triton.cdiv(n_rows, 16), n_groups, triton.cdiv(n_cols, 128))
    rational_kernel[grid](x, numerator, denominator, y, n_rows, n_cols, BLOCK_M=16, BLOCK_N=128, num_warps=4)
    return y
