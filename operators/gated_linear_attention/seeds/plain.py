"""Gated linear attention, one program some columns of one head's values, chunk after chunk of the sequence.

Gates are summed up within a chunk, so that queries and keys can be scaled apart; the state stays in registers. Products
are of float32: what gates have scaled, rounded to the inputs' dtype or even to two numbers of it, would be coarser than
the contract where products of queries and keys cancel.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gla_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    gate_ptr,
    y_ptr,
    n_positions,
    n_cols,
    scale,
    K: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    start_k = tl.program_id(1).to(tl.int64) * n_positions * K
    start_v = tl.program_id(1).to(tl.int64) * n_positions * n_cols
    places, dims = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_K)
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    earlier = places[:, None] >= places[None, :]
    state = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    for start in range(0, n_positions, BLOCK_T):
        rows = start + places
        offsets = start_k + rows[:, None] * K + dims[None, :]
        mask = (rows < n_positions)[:, None] & (dims < K)[None, :]
        q = tl.load(q_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        k = tl.load(k_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0)
        v_offsets = start_v + rows[:, None] * n_cols + cols[None, :]
        v_mask = (rows < n_positions)[:, None] & (cols < n_cols)[None, :]
        v = tl.load(v_ptr + v_offsets, mask=v_mask, other=0.0).to(tl.float32)
        kept = tl.cumsum(gate, axis=0)
        whole = tl.sum(gate, axis=0)
        inward = q * scale * tl.exp(kept)
        scores = tl.dot(inward, tl.trans(k * tl.exp(-kept)), input_precision="ieee")
        y = tl.dot(inward, state, input_precision="ieee")
        y = tl.dot(tl.where(earlier, scores, 0.0), v, y, input_precision="ieee")
        tl.store(y_ptr + v_offsets, y, mask=v_mask)
        outward = tl.trans(k * tl.exp(whole[None, :] - kept))
        state = tl.dot(outward, v, state * tl.exp(whole)[:, None], input_precision="ieee")


def gated_linear_attention(q, k, v, gate):
    batch, heads, n_positions, features = k.shape
    n_cols = v.shape[-1]
    y = torch.empty_like(v)
    block_k = max(16, triton.next_power_of_2(features))
    gla_kernel[(triton.cdiv(n_cols, 32), batch * heads)](
        q,
        k,
        v,
        gate,
        y,
        n_positions,
        n_cols,
        features**-0.5,
        K=features,
        BLOCK_K=block_k,
        BLOCK_V=32,
        BLOCK_T=16,
        num_warps=8,
        num_stages=2,  # one more, and keys of 256 take more shared memory than sm_86 has
    )
    return y
