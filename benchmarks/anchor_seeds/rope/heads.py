"""Cosines and sines of a few positions stay in registers while a program walks over heads; a half is read once.

Both halves of a position are in one program, so that every element of `q` is read once, in pieces of 16 bytes.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def heads_kernel(
    q_ptr, cos_ptr, sin_ptr, y_ptr, n_heads, n_positions, D: tl.constexpr, HALF: tl.constexpr, ROWS: tl.constexpr,
    HEADS: tl.constexpr,
):  # fmt: skip
    positions = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    cols = tl.arange(0, HALF)
    lanes = positions[:, None] * D + cols[None, :]
    mask = (positions[:, None] < n_positions) & (cols[None, :] < D // 2)
    cos_first = tl.load(cos_ptr + lanes, mask=mask, other=0.0, eviction_policy="evict_last")
    cos_second = tl.load(cos_ptr + D // 2 + lanes, mask=mask, other=0.0, eviction_policy="evict_last")
    sin_first = tl.load(sin_ptr + lanes, mask=mask, other=0.0, eviction_policy="evict_last")
    sin_second = tl.load(sin_ptr + D // 2 + lanes, mask=mask, other=0.0, eviction_policy="evict_last")
    first_head = tl.program_id(1) * HEADS
    for head in tl.static_range(HEADS):
        inside = mask & (first_head + head < n_heads)
        places = (first_head + head).to(tl.int64) * n_positions * D + lanes
        first = tl.load(q_ptr + places, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        second = tl.load(q_ptr + D // 2 + places, mask=inside, other=0.0, eviction_policy="evict_first").to(tl.float32)
        y_first = first * cos_first.to(tl.float32) - second * sin_first.to(tl.float32)
        y_second = second * cos_second.to(tl.float32) + first * sin_second.to(tl.float32)
        tl.store(y_ptr + places, y_first, mask=inside, eviction_policy="evict_first")
        tl.store(y_ptr + D // 2 + places, y_second, mask=inside, eviction_policy="evict_first")


def rope(q, cos, sin):
    batch, heads, n_positions, n_cols = q.shape
    y = torch.empty_like(q)
    rows, together = 16, 4
    grid = (triton.cdiv(n_positions, rows), triton.cdiv(batch * heads, together))
    heads_kernel[grid](
        q, cos, sin, y, batch * heads, n_positions, D=n_cols, HALF=triton.next_power_of_2(n_cols // 2), ROWS=rows,
        HEADS=together, num_warps=4,
    )  # fmt: skip
    return y
