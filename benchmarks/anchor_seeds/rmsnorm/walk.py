"""Programs that walk over rows: a row's result is computed while the next row is on its way; the widest in pieces."""

import torch
import triton
import triton.language as tl


@triton.jit
def walk_kernel(x_ptr, weight_ptr, y_ptr, n_rows, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    for row in tl.range(tl.program_id(0).to(tl.int64), n_rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6)
        tl.store(y_ptr + row * n_cols + cols, x * scale * weight.to(tl.float32), mask=mask)


@triton.jit
def pieces_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    begin = tl.program_id(0).to(tl.int64) * n_cols
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in tl.range(0, n_cols, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + begin + cols, mask=cols < n_cols, other=0.0, eviction_policy="evict_last").to(tl.float32)
        squares += x * x
    scale = tl.rsqrt(tl.sum(squares, axis=0) / n_cols + 1e-6)
    for start in tl.range(0, n_cols, BLOCK, num_stages=STAGES):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(x_ptr + begin + cols, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=mask, other=0.0, eviction_policy="evict_last").to(tl.float32)
        tl.store(y_ptr + begin + cols, x * scale * weight, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols > 32768:
        pieces_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=8192, STAGES=3, num_warps=16)
        return y
    block = triton.next_power_of_2(n_cols)
    if n_cols > 8192:
        walk_kernel[(min(n_rows, 132),)](x, weight, y, n_rows, n_cols, BLOCK=block, STAGES=2, num_warps=32)
    else:
        programs = 264 if n_cols > 4096 else 528  # As many as run at once.
        walk_kernel[(min(n_rows, programs),)](x, weight, y, n_rows, n_cols, BLOCK=block, STAGES=3, num_warps=8)
    return y
