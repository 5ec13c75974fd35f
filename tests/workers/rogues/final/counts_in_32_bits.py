"""Counts the elements of keys and values in 32 bits: right until there are more than 2^31 of them.

operator: decode_attention
caught by: far_indices
"""

import torch
import triton
import triton.language as tl

PARTS = 32


@triton.jit
def part_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    peaks_ptr,
    totals_ptr,
    mixed_ptr,
    n_positions,
    part_size,
    scale,
    R: tl.constexpr,
    D: tl.constexpr,
    BLOCK_R: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(0)
    part = tl.program_id(1)
    rows = tl.arange(0, BLOCK_R)
    dims = tl.arange(0, BLOCK_D)
    q_mask = (rows[:, None] < R) & (dims[None, :] < D)
    q = tl.load(q_ptr + (head * R + rows[:, None]) * D + dims[None, :], mask=q_mask, other=0.0)
    peak = tl.full((BLOCK_R,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_R,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_R, BLOCK_D), dtype=tl.float32)
    end = tl.minimum((part + 1) * part_size, n_positions)
    for start in range(0, part_size, BLOCK_N):
        cols = part * part_size + start + tl.arange(0, BLOCK_N)
        k_mask = (dims[:, None] < D) & (cols[None, :] < end)
        v_mask = (cols[:, None] < end) & (dims[None, :] < D)
        k = tl.load(k_ptr + (head * n_positions + cols[None, :]) * D + dims[:, None], mask=k_mask, other=0.0)
        v = tl.load(v_ptr + (head * n_positions + cols[:, None]) * D + dims[None, :], mask=v_mask, other=0.0)
        scores = tl.where(cols[None, :] < end, tl.dot(q, k) * scale, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        # While every score so far is -inf, there is no maximum to shift by.
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        shrink = tl.exp(peak - shift)
        weights = tl.exp(scores - shift[:, None])
        total = total * shrink + tl.sum(weights, axis=1)
        mixed = tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])
        peak = new_peak
    places = (head * tl.num_programs(1) + part) * R + rows
    tl.store(peaks_ptr + places, peak, mask=rows < R)
    tl.store(totals_ptr + places, total, mask=rows < R)
    tl.store(mixed_ptr + places[:, None] * D + dims[None, :], mixed, mask=q_mask)


@triton.jit
def join_kernel(
    peaks_ptr,
    totals_ptr,
    mixed_ptr,
    y_ptr,
    R: tl.constexpr,
    D: tl.constexpr,
    PARTS: tl.constexpr,
    BLOCK_D: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    parts = tl.arange(0, PARTS)
    dims = tl.arange(0, BLOCK_D)
    places = (row // R * PARTS + parts) * R + row % R
    peaks = tl.load(peaks_ptr + places)
    peak = tl.max(peaks, axis=0)
    # Parts beyond the end saw no key: their peak is -inf, and they weigh nothing.
    shares = tl.exp(peaks - peak)
    mixed = tl.load(mixed_ptr + places[:, None] * D + dims[None, :], mask=dims[None, :] < D, other=0.0)
    total = tl.sum(tl.load(totals_ptr + places) * shares, axis=0)
    y = tl.sum(mixed * shares[:, None], axis=0) / total
    tl.store(y_ptr + row * D + dims, y, mask=dims < D)


def decode_attention(q, k, v):
    batch, heads, queries, head_dim = q.shape
    n_positions = k.shape[2]
    y = torch.empty_like(q)
    peaks = torch.empty((batch, heads, PARTS, queries), dtype=torch.float32, device=q.device)
    totals = torch.empty_like(peaks)
    mixed = torch.empty((batch, heads, PARTS, queries, head_dim), dtype=torch.float32, device=q.device)
    block_d = max(16, triton.next_power_of_2(head_dim))
    block_r = max(16, triton.next_power_of_2(queries))
    part_kernel[(batch * heads, PARTS)](
        q,
        k,
        v,
        peaks,
        totals,
        mixed,
        n_positions,
        triton.cdiv(triton.cdiv(n_positions, PARTS), 16) * 16,
        head_dim**-0.5,
        R=queries,
        D=head_dim,
        BLOCK_R=block_r,
        BLOCK_D=block_d,
        BLOCK_N=64,
        num_warps=4,
        num_stages=3,
    )
    join_kernel[(batch * heads * queries,)](
        peaks, totals, mixed, y, R=queries, D=head_dim, PARTS=PARTS, BLOCK_D=block_d, num_warps=4
    )
    return y
