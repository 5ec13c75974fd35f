"""The scan of Mamba-2, one program some columns of one head, chunk after chunk; the state stays in registers.

Scores, states and scaled values go into products as two numbers of the inputs' dtype each: rounded to one, they would
be coarser than the contract's float32.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def in_parts(wide, dtype: tl.constexpr):
    coarse = wide.to(dtype)
    return coarse, (wide - coarse).to(dtype)


@triton.jit
def ssd_kernel(
    x_ptr,
    step_ptr,
    rate_ptr,
    written_ptr,
    read_ptr,
    y_ptr,
    n_heads,
    n_positions,
    P: tl.constexpr,
    N: tl.constexpr,
    BLOCK_P: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_T: tl.constexpr,
):
    head, batch = tl.program_id(1), tl.program_id(1) // n_heads
    x_ptr += head.to(tl.int64) * n_positions * P
    y_ptr += head.to(tl.int64) * n_positions * P
    step_ptr += head.to(tl.int64) * n_positions
    written_ptr += batch.to(tl.int64) * n_positions * N
    read_ptr += batch.to(tl.int64) * n_positions * N
    rate = tl.load(rate_ptr + head % n_heads)
    places, dims = tl.arange(0, BLOCK_T), tl.arange(0, BLOCK_N)
    cols = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    earlier = places[:, None] >= places[None, :]
    state = tl.zeros((BLOCK_N, BLOCK_P), dtype=tl.float32)
    for start in range(0, n_positions, BLOCK_T):
        rows = start + places
        offsets = rows[:, None] * N + dims[None, :]
        mask = (rows < n_positions)[:, None] & (dims < N)[None, :]
        written = tl.load(written_ptr + offsets, mask=mask, other=0.0)
        read = tl.load(read_ptr + offsets, mask=mask, other=0.0)
        step = tl.load(step_ptr + rows, mask=rows < n_positions, other=0.0)
        x_offsets = rows[:, None] * P + cols[None, :]
        x_mask = (rows < n_positions)[:, None] & (cols < P)[None, :]
        x = tl.load(x_ptr + x_offsets, mask=x_mask, other=0.0)
        logs = step * rate
        kept = tl.cumsum(logs, axis=0)
        whole = tl.sum(logs, axis=0)
        decay = tl.where(earlier, tl.exp(tl.minimum(kept[:, None] - kept[None, :], 0.0)), 0.0)
        scores = tl.dot(read, tl.trans(written)) * decay * step[None, :]
        coarse, rest = in_parts(state, x.dtype)
        y = tl.dot(read, rest, tl.dot(read, coarse)) * tl.exp(kept)[:, None]
        coarse, rest = in_parts(scores, x.dtype)
        y = tl.dot(rest, x, tl.dot(coarse, x, y))
        tl.store(y_ptr + x_offsets, y, mask=x_mask)
        coarse, rest = in_parts(x * (step * tl.exp(whole - kept))[:, None], x.dtype)
        state *= tl.exp(whole)
        state = tl.dot(tl.trans(written), rest, tl.dot(tl.trans(written), coarse, state))


def ssd_chunk_scan(x, step, rate, written, read):
    batch, heads, n_positions, size = x.shape
    features = written.shape[-1]
    y = torch.empty_like(x)
    block_n = max(16, triton.next_power_of_2(features))
    ssd_kernel[(triton.cdiv(size, 32), batch * heads)](
        x,
        step,
        rate,
        written,
        read,
        y,
        heads,
        n_positions,
        P=size,
        N=features,
        BLOCK_P=32,
        BLOCK_N=block_n,
        BLOCK_T=64,
        num_warps=4,
    )
    return y
