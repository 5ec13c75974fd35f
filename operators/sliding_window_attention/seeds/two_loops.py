"""One loop over the blocks of keys that all queries see, without a mask, and one over those at both ends of the window.

Twice as many queries a program read the keys half as often; the scale goes into the exponent, where a product and a
difference are one instruction. Wide windows are moved in bulk; a narrow one is read before descriptors would be ready.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def block_of(source, start, n_positions, d: tl.constexpr, BLOCK_N: tl.constexpr, BULK: tl.constexpr):
    if BULK:
        return source.load([start, 0])
    else:
        rows = start + tl.arange(0, BLOCK_N)[:, None]
        return tl.load(source + rows * d + tl.arange(0, d)[None, :], mask=rows < n_positions, other=0.0)


@triton.jit
def take(scores, v, peak, total, mixed, scale):
    new_peak = tl.maximum(peak, tl.max(scores, axis=1) * scale)
    # While a row has seen no key, there is no maximum to shift by.
    shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
    shrink = tl.exp2(peak - shift)
    weights = tl.exp2(scores * scale - shift[:, None])
    total = total * shrink + tl.sum(weights, axis=1)
    return new_peak, total, tl.dot(weights.to(v.dtype), v, mixed * shrink[:, None])


@triton.jit
def sliding_window_attention_kernel(
    q_ptr,
    k_ptr,
    v_ptr,
    y_ptr,
    n_positions,
    window,
    scale,
    d: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BULK: tl.constexpr,
):
    head = tl.program_id(1).to(tl.int64) * n_positions * d
    first = tl.program_id(0) * BLOCK_M
    rows, dims = first + tl.arange(0, BLOCK_M), tl.arange(0, d)
    queries, keys, values = q_ptr + head, k_ptr + head, v_ptr + head
    if BULK:
        queries = tl.make_tensor_descriptor(queries, (n_positions, d), (d, 1), (BLOCK_M, d))
        keys = tl.make_tensor_descriptor(keys, (n_positions, d), (d, 1), (BLOCK_N, d))
        values = tl.make_tensor_descriptor(values, (n_positions, d), (d, 1), (BLOCK_N, d))
    q = block_of(queries, first, n_positions, d, BLOCK_M, BULK)
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    mixed = tl.zeros((BLOCK_M, d), dtype=tl.float32)
    begin = tl.maximum(first - window + 1, 0) // BLOCK_N
    full = tl.minimum(tl.cdiv(tl.maximum(first + BLOCK_M - window, 0), BLOCK_N), first // BLOCK_N)
    skipped = first // BLOCK_N - full
    for turn in range(begin, tl.cdiv(tl.minimum(first + BLOCK_M, n_positions), BLOCK_N) - skipped):
        start = tl.where(turn < full, turn, turn + skipped) * BLOCK_N
        cols = start + tl.arange(0, BLOCK_N)
        k = block_of(keys, start, n_positions, d, BLOCK_N, BULK)
        v = block_of(values, start, n_positions, d, BLOCK_N, BULK)
        seen = (cols[None, :] <= rows[:, None]) & (cols[None, :] > (rows - window)[:, None])
        scores = tl.where(seen, tl.dot(q, k.T), -float("inf"))
        peak, total, mixed = take(scores, v, peak, total, mixed, scale)
    for start in range(full * BLOCK_N, (full + skipped) * BLOCK_N, BLOCK_N):
        k = block_of(keys, start, n_positions, d, BLOCK_N, BULK)
        v = block_of(values, start, n_positions, d, BLOCK_N, BULK)
        peak, total, mixed = take(tl.dot(q, k.T), v, peak, total, mixed, scale)
    place = y_ptr + head + rows[:, None] * d + dims[None, :]
    tl.store(place, mixed / total[:, None], mask=rows[:, None] < n_positions)


def sliding_window_attention(q, k, v, window):
    batch, heads, n_positions, head_dim = q.shape
    y = torch.empty_like(q)
    grid = (triton.cdiv(n_positions, 128), batch * heads)
    wide = window > 256
    sliding_window_attention_kernel[grid](
        q,
        k,
        v,
        y,
        n_positions,
        window,
        head_dim**-0.5 * 1.4426950408889634,
        d=head_dim,
        BLOCK_M=128,
        BLOCK_N=64,
        BULK=wide,
        num_warps=8,
        num_stages=2 if wide else 3,
        maxnreg=128,
    )
    return y
