"""Chunks of 128 positions side by side: their scores, their states, a scan over the states, then all outputs.

What gates have scaled goes into products as three numbers of the inputs' dtype, which together hold all bits of a
float32, and through the matrix units at the speed of that dtype. Only the scan goes from chunk to chunk.
"""

import torch
import triton
import triton.language as tl

CHUNK = 128
PIECE = 32


@triton.jit
def in_parts(wide, DTYPE: tl.constexpr):
    first = wide.to(DTYPE)
    rest = wide - first
    second = rest.to(DTYPE)
    return first, second, (rest - second).to(DTYPE)


@triton.jit
def rows_of(source, rows, dims, n_rows, n_dims):
    mask = (rows < n_rows)[:, None] & (dims < n_dims)[None, :]
    return tl.load(source + rows[:, None] * n_dims + dims[None, :], mask=mask, other=0.0)


@triton.jit
def scores_kernel(
    q_ptr,
    k_ptr,
    gate_ptr,
    scores_ptr,
    n_positions,
    scale,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    PIECE: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions
    q_ptr, k_ptr, gate_ptr = q_ptr + head * K, k_ptr + head * K, gate_ptr + head * K
    piece = tl.program_id(0) % (CHUNK // PIECE)
    back = tl.program_id(2)
    if back <= piece:
        rows = tl.program_id(0) * PIECE + tl.arange(0, PIECE)
        others = rows - back * PIECE
        scores = tl.zeros((PIECE, PIECE), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            dims = start + tl.arange(0, BLOCK_K)
            kept = tl.cumsum(rows_of(gate_ptr, rows, dims, n_positions, K), axis=0)
            gate = rows_of(gate_ptr, others, dims, n_positions, K)
            later = tl.where(back > 0, tl.sum(gate, axis=0), 0.0)
            for step in range(1, back):
                later += tl.sum(rows_of(gate_ptr, rows - step * PIECE, dims, n_positions, K), axis=0)
            q = rows_of(q_ptr, rows, dims, n_positions, K).to(tl.float32) * scale * tl.exp(kept)
            k = rows_of(k_ptr, others, dims, n_positions, K).to(tl.float32)
            k *= tl.exp(later[None, :] - tl.cumsum(gate, axis=0))
            scores = tl.dot(q, tl.trans(k), scores, input_precision="tf32x3")
        cols = (piece - back) * PIECE + tl.arange(0, PIECE)
        place = scores_ptr + (head + rows)[:, None] * CHUNK + cols[None, :]
        tl.store(place, scores, mask=(rows < n_positions)[:, None])


@triton.jit
def states_kernel(
    k_ptr,
    v_ptr,
    gate_ptr,
    states_ptr,
    whole_ptr,
    n_positions,
    n_cols,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
):
    col_blocks = tl.cdiv(n_cols, BLOCK_V)
    chunk = tl.program_id(1)
    head = tl.program_id(2).to(tl.int64)
    rows = chunk * CHUNK + tl.arange(0, CHUNK)
    dims = tl.program_id(0) // col_blocks * BLOCK_K + tl.arange(0, BLOCK_K)
    cols = tl.program_id(0) % col_blocks * BLOCK_V + tl.arange(0, BLOCK_V)
    gate = rows_of(gate_ptr + head * n_positions * K, rows, dims, n_positions, K)
    k = rows_of(k_ptr + head * n_positions * K, rows, dims, n_positions, K).to(tl.float32)
    v = rows_of(v_ptr + head * n_positions * n_cols, rows, cols, n_positions, n_cols)
    first, second, third = in_parts(k * tl.exp(tl.cumsum(gate, axis=0, reverse=True) - gate), v.dtype)
    state = tl.dot(tl.trans(third), v)
    state = tl.dot(tl.trans(second), v, state)
    state = tl.dot(tl.trans(first), v, state)
    place = head * tl.num_programs(1) + chunk
    offsets = place * K * n_cols + dims[:, None] * n_cols + cols[None, :]
    tl.store(states_ptr + offsets, state, mask=(dims < K)[:, None] & (cols < n_cols)[None, :])
    if tl.program_id(0) % col_blocks == 0:
        tl.store(whole_ptr + place * K + dims, tl.sum(gate, axis=0), mask=dims < K)


@triton.jit
def scan_kernel(states_ptr, whole_ptr, n_chunks, n_cols, K: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr):
    dims = tl.program_id(1) * BLOCK_K + tl.arange(0, BLOCK_K)
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    head = tl.program_id(2).to(tl.int64) * n_chunks * K
    offsets = dims[:, None] * n_cols + cols[None, :]
    mask = (dims < K)[:, None] & (cols < n_cols)[None, :]
    state = tl.zeros((BLOCK_K, BLOCK_V), dtype=tl.float32)
    for chunk in tl.range(n_chunks, num_stages=4):
        row = head + chunk * K
        whole = tl.load(whole_ptr + row + dims, mask=dims < K, other=0.0)
        own = tl.load(states_ptr + row * n_cols + offsets, mask=mask, other=0.0)
        state = state * tl.exp(whole)[:, None] + own
        tl.store(states_ptr + row * n_cols + offsets, state, mask=mask)


@triton.jit
def output_kernel(
    q_ptr,
    v_ptr,
    gate_ptr,
    scores_ptr,
    states_ptr,
    y_ptr,
    n_positions,
    n_cols,
    scale,
    K: tl.constexpr,
    CHUNK: tl.constexpr,
    BLOCK_K: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    chunk = tl.program_id(1)
    head = tl.program_id(2).to(tl.int64)
    q_ptr, gate_ptr = q_ptr + head * n_positions * K, gate_ptr + head * n_positions * K
    v_ptr, y_ptr = v_ptr + head * n_positions * n_cols, y_ptr + head * n_positions * n_cols
    states_ptr += (head * (tl.num_programs(1) - 1) + chunk - 1) * K * n_cols
    scores_ptr += head * n_positions * CHUNK
    places = tl.arange(0, CHUNK)
    rows = chunk * CHUNK + places
    cols = tl.program_id(0) * BLOCK_V + tl.arange(0, BLOCK_V)
    y = tl.zeros((CHUNK, BLOCK_V), dtype=tl.float32)
    for start in range(0, tl.where(chunk > 0, K, 0), BLOCK_K):
        dims = start + tl.arange(0, BLOCK_K)
        kept = tl.cumsum(rows_of(gate_ptr, rows, dims, n_positions, K), axis=0)
        q = rows_of(q_ptr, rows, dims, n_positions, K)
        q1, q2, q3 = in_parts(q.to(tl.float32) * scale * tl.exp(kept), q.dtype)
        s1, s2, s3 = in_parts(rows_of(states_ptr, dims, cols, K, n_cols), q.dtype)
        y = tl.dot(q1, s3, tl.dot(q2, s2, tl.dot(q3, s1, y)))
        y = tl.dot(q1, s1, tl.dot(q1, s2, tl.dot(q2, s1, y)))
    for start in range(0, CHUNK, BLOCK_T):
        others = start + tl.arange(0, BLOCK_T)
        mask = (rows < n_positions)[:, None] & (others[None, :] <= places[:, None])
        scores = tl.load(scores_ptr + rows[:, None] * CHUNK + others[None, :], mask=mask, other=0.0)
        v = rows_of(v_ptr, chunk * CHUNK + others, cols, n_positions, n_cols)
        first, second, third = in_parts(scores, v.dtype)
        y = tl.dot(first, v, tl.dot(second, v, tl.dot(third, v, y)))
    y_mask = (rows < n_positions)[:, None] & (cols < n_cols)[None, :]
    tl.store(y_ptr + rows[:, None] * n_cols + cols[None, :], y, mask=y_mask)


def gated_linear_attention(q, k, v, gate):
    batch, heads, n_positions, features = k.shape
    n_cols, n_heads, n_chunks = v.shape[-1], batch * heads, triton.cdiv(n_positions, CHUNK)
    y = torch.empty_like(v)
    scores = torch.empty((n_heads, n_positions, CHUNK), dtype=torch.float32, device=q.device)
    states = torch.empty((n_heads, max(n_chunks - 1, 1), features, n_cols), dtype=torch.float32, device=q.device)
    whole = torch.empty((n_heads, max(n_chunks - 1, 1), features), dtype=torch.float32, device=q.device)
    block_k = min(max(16, triton.next_power_of_2(features)), 64)
    block_v = min(max(16, triton.next_power_of_2(n_cols)), 128)
    col_blocks = triton.cdiv(n_cols, block_v)
    scale = features**-0.5
    scores_kernel[(triton.cdiv(n_positions, PIECE), n_heads, CHUNK // PIECE)](
        q,
        k,
        gate,
        scores,
        n_positions,
        scale,
        K=features,
        CHUNK=CHUNK,
        PIECE=PIECE,
        BLOCK_K=block_k,
        num_warps=4,
        num_stages=1,
    )
    if n_chunks > 1:
        states_kernel[(triton.cdiv(features, block_k) * col_blocks, n_chunks - 1, n_heads)](
            k,
            v,
            gate,
            states,
            whole,
            n_positions,
            n_cols,
            K=features,
            CHUNK=CHUNK,
            BLOCK_K=block_k,
            BLOCK_V=block_v,
            num_warps=8,
        )
        scan_kernel[(col_blocks, triton.cdiv(features, 8), n_heads)](
            states, whole, n_chunks - 1, n_cols, K=features, BLOCK_K=8, BLOCK_V=block_v, num_warps=4
        )
    output_kernel[(col_blocks, n_chunks, n_heads)](
        q,
        v,
        gate,
        scores,
        states,
        y,
        n_positions,
        n_cols,
        scale,
        K=features,
        CHUNK=CHUNK,
        BLOCK_K=block_k,
        BLOCK_V=block_v,
        BLOCK_T=64,
        num_warps=8,
        num_stages=1,
    )
    return y
