"""Linear attention with decay, one program some columns of one head's values, chunk after chunk of the sequence.

The state, keys times values of all earlier chunks, stays in registers. Scores, states and decayed values go into
products as two numbers of the inputs' dtype each: rounded to one, they would be coarser than the contract's float32.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def in_parts(wide, dtype: tl.constexpr):
    coarse = wide.to(dtype)
    return coarse, (wide - coarse).to(dtype)


@triton.jit
def lightning_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    slope_ptr,
    y_ptr,
    n_heads,
    n_positions,
    D: tl.constexpr,
    BLOCK_D: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * D
    slope = tl.load(slope_ptr + tl.program_id(1) % n_heads)
    places, dims = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_D)
    columns = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    distance = places[:, None] - places[None, :]
    decay = tl.where(distance >= 0, tl.exp(-slope * tl.maximum(distance, 0)), 0.0)
    from_start = tl.exp(-slope * (places + 1))
    to_end = tl.exp(-slope * (BLOCK_T - 1 - places))
    state = tl.zeros((BLOCK_D, BLOCK_V), dtype=tl.float32)
    for start in range(0, n_positions, BLOCK_T):
        rows = start + places
        mask = (rows < n_positions)[:, None] & (dims < D)[None, :]
        q = tl.load(q_ptr + head + rows[:, None] * D + dims[None, :], mask=mask, other=0.0)
        k = tl.load(k_ptr + head + rows[:, None] * D + dims[None, :], mask=mask, other=0.0)
        v_mask = (rows < n_positions)[:, None] & (columns < D)[None, :]
        v = tl.load(v_ptr + head + rows[:, None] * D + columns[None, :], mask=v_mask, other=0.0)
        scores = tl.dot(q, tl.trans(k)) * decay
        coarse, rest = in_parts(state, v.dtype)
        y = tl.dot(q, rest, tl.dot(q, coarse)) * from_start[:, None]
        coarse, rest = in_parts(scores, v.dtype)
        y = tl.dot(rest, v, tl.dot(coarse, v, y))
        tl.store(y_ptr + head + rows[:, None] * D + columns[None, :], y, mask=v_mask)
        coarse, rest = in_parts(v * to_end[:, None], v.dtype)
        state *= tl.exp(-slope * BLOCK_T)
        state = tl.dot(tl.trans(k), rest, tl.dot(tl.trans(k), coarse, state))


def lightning_attention(q, k, v, slope):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    block_d = max(16, triton.next_power_of_2(head_dim))
    lightning_kernel[(triton.cdiv(head_dim, 32), batch * heads)](
        q,
        k,
        v,
        slope,
        y,
        heads,
        n_positions,
        D=head_dim,
        BLOCK_D=block_d,
        BLOCK_V=32,
        BLOCK_T=64,
        num_warps=4,
    )
    return y
