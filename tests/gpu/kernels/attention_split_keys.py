"""Keys in two parts, each with programs of its own, and a kernel that merges what they found.

operator: attention
"""

import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    mixed_ptr,
    peak_ptr,
    total_ptr,
    n_positions,
    scale,
    causal: tl.constexpr,
    d: tl.constexpr,
    block_m: tl.constexpr,
    block_n: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * d
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    dims = tl.arange(0, d)
    q = tl.load(q_ptr + head + rows[:, None] * d + dims[None, :], mask=rows[:, None] < n_positions, other=0.0)
    peak = tl.full((block_m,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((block_m,), dtype=tl.float32)
    mixed = tl.zeros((block_m, d), dtype=tl.float32)
    end = tl.minimum((tl.program_id(0) + 1) * block_m, n_positions) if causal else n_positions
    for start in range(tl.program_id(2) * block_n, end, tl.num_programs(2) * block_n):
        cols = start + tl.arange(0, block_n)
        k = tl.load(k_ptr + head + cols[None, :] * d + dims[:, None], mask=cols[None, :] < n_positions, other=0.0)
        v = tl.load(v_ptr + head + cols[:, None] * d + dims[None, :], mask=cols[:, None] < n_positions, other=0.0)
        seen = cols[None, :] < n_positions
        if causal:
            seen = seen & (cols[None, :] <= rows[:, None])
        scores = tl.where(seen, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        shrink = tl.exp2(peak - shift)
        weights = tl.exp2(scores - shift[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
    row = (tl.program_id(2) * tl.num_programs(1) + tl.program_id(1)).to(tl.int64) * n_positions + rows
    tl.store(mixed_ptr + row[:, None] * d + dims[None, :], mixed, mask=rows[:, None] < n_positions)
    tl.store(peak_ptr + row, peak, mask=rows < n_positions)
    tl.store(total_ptr + row, total, mask=rows < n_positions)


@triton.jit
def merge_kernel(mixed_ptr, peak_ptr, total_ptr, y_ptr, n_rows, d: tl.constexpr, block: tl.constexpr):
    rows = tl.program_id(0) * block + tl.arange(0, block)
    dims = tl.arange(0, d)
    mask = rows < n_rows
    one, other = rows.to(tl.int64), rows.to(tl.int64) + n_rows
    left = tl.load(peak_ptr + one, mask=mask, other=0.0)
    right = tl.load(peak_ptr + other, mask=mask, other=0.0)
    peak = tl.maximum(left, right)
    left, right = tl.exp2(left - peak), tl.exp2(right - peak)
    total = tl.load(total_ptr + one, mask=mask, other=1.0) * left
    total += tl.load(total_ptr + other, mask=mask, other=1.0) * right
    mixed = tl.load(mixed_ptr + one[:, None] * d + dims[None, :], mask=mask[:, None], other=0.0) * left[:, None]
    mixed += tl.load(mixed_ptr + other[:, None] * d + dims[None, :], mask=mask[:, None], other=0.0) * right[:, None]
    tl.store(y_ptr + one[:, None] * d + dims[None, :], mixed / total[:, None], mask=mask[:, None])


def attention(q, k, v, causal):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    rows = batch * heads * n_positions
    mixed = torch.empty((2, rows, head_dim), dtype=torch.float32, device=q.device)
    peak = torch.empty((2, rows), dtype=torch.float32, device=q.device)
    total = torch.empty((2, rows), dtype=torch.float32, device=q.device)
    grid = (triton.cdiv(n_positions, 64), batch * heads, 2)
    scale = head_dim**-0.5 * 1.4426950408889634
    options = {"d": head_dim, "block_m": 64, "block_n": 64, "num_warps": 4, "num_stages": 2}
    part_kernel[grid](q, k, v, mixed, peak, total, n_positions, scale, causal=causal, **options)
    merge_kernel[(triton.cdiv(rows, 32),)](mixed, peak, total, y, rows, d=head_dim, block=32, num_warps=4)
    return y
