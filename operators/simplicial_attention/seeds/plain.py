"""2-simplicial attention with an online softmax, one program a block of queries of one head.

For one distance to the second position after another, queries are multiplied with its keys; what is left is attention
over the first position. The products of two inputs go in as two numbers of the inputs' dtype, which hold them
exactly.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def simplicial_kernel(
    q_ptr,
    k1_ptr,
    v1_ptr,
    k2_ptr,
    v2_ptr,
    y_ptr,
    n_positions,
    scale,
    window1,
    window2,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * D
    first_row = tl.program_id(0) * BLOCK_M
    rows = first_row + tl.arange(0, BLOCK_M)
    dims = tl.arange(0, BLOCK_D)
    in_head = (dims < D)[None, :]
    q_mask = (rows < n_positions)[:, None] & in_head
    q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=q_mask, other=0.0).to(tl.float32)
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
    begin = tl.maximum(first_row - window1 + 1, 0) // BLOCK_N * BLOCK_N
    end = tl.minimum(first_row + BLOCK_M, n_positions)
    for distance in range(window2):
        others = rows - distance
        is_there = (others >= 0) & (others < n_positions)
        other_mask = is_there[:, None] & in_head
        offsets = head + others[:, None] * D + dims[None, :]
        k2 = tl.load(k2_ptr + offsets, mask=other_mask, other=0.0)
        v2 = tl.load(v2_ptr + offsets, mask=other_mask, other=0.0).to(tl.float32)
        query = q * k2.to(tl.float32)
        coarse = query.to(k2.dtype)
        rest = (query - coarse).to(k2.dtype)
        gathered = tl.zeros((BLOCK_M, BLOCK_D), dtype=tl.float32)
        for start in range(begin, end, BLOCK_N):
            cols = start + tl.arange(0, BLOCK_N)
            mask = (cols < n_positions)[:, None] & in_head
            k1 = tl.load(k1_ptr + head + cols[:, None] * D + dims[None, :], mask=mask, other=0.0)
            v1 = tl.load(v1_ptr + head + cols[:, None] * D + dims[None, :], mask=mask, other=0.0)
            behind = rows[:, None] - cols[None, :]
            seen = is_there[:, None] & (behind >= 0) & (behind < window1)
            scores = tl.dot(coarse, tl.trans(k1))
            # Where an input is infinite the first number says all, and the second one would make it NaN.
            scores = tl.where(tl.abs(scores) < float("inf"), scores + tl.dot(rest, tl.trans(k1)), scores)
            scores = tl.where(seen, scores * scale, -float("inf"))
            new_peak = tl.maximum(peak, tl.max(scores, axis=1))
            # A row may have seen nothing yet.
            shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
            shrink = tl.exp(peak - shift)
            weights = tl.exp(scores - shift[:, None])
            total = total * shrink + tl.sum(weights, axis=1)
            gathered = tl.dot(weights.to(v1.dtype), v1, gathered * shrink[:, None])
            mixed = mixed * shrink[:, None]
            peak = new_peak
        mixed += gathered * v2
    tl.store(y_ptr + head + rows[:, None] * D + dims[None, :], mixed / total[:, None], mask=q_mask)


def simplicial_attention(q, k1, v1, k2, v2, window1, window2):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    block_d = max(16, triton.next_power_of_2(head_dim))
    grid = (triton.cdiv(n_positions, 64), batch * heads)
    simplicial_kernel[grid](
        q,
        k1,
        v1,
        k2,
        v2,
        y,
        n_positions,
        head_dim**-0.5,
        window1,
        window2,
        D=head_dim,
        BLOCK_D=block_d,
        BLOCK_M=64,
        BLOCK_N=32,
        num_warps=8,
    )
    return y
