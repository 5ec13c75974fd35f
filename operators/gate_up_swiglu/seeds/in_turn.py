"""One projection after the other for each tile of 128 by 256, moved in bulk; the first one waits as pairs of bfloat16.

A loop around both, so that the compiler neither keeps the first in float32 nor works it out when the second is there.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def corner(tile, tiles_m, tiles_n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, GROUP: tl.constexpr):
    first = tile // (GROUP * tiles_n) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % (GROUP * tiles_n)
    return (first + inside % height) * BLOCK_M, (inside // height) * BLOCK_N


@triton.jit
def bulk_kernel(
    x_ptr,
    w_gate_ptr,
    w_up_ptr,
    y_ptr,
    M,
    N,
    K,
    turns,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    row, col = corner(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N), BLOCK_M, BLOCK_N, GROUP)
    x_tiles = tl.make_tensor_descriptor(x_ptr, (M, K), (K, 1), (BLOCK_M, BLOCK_K))
    y_tiles = tl.make_tensor_descriptor(y_ptr, (M, N), (N, 1), (BLOCK_M, BLOCK_N))
    pairs = tl.zeros((BLOCK_M, BLOCK_N // 2), dtype=tl.uint32)
    for turn in tl.range(0, turns, num_stages=1):
        w_ptr = w_gate_ptr if turn == 0 else w_up_ptr
        w_tiles = tl.make_tensor_descriptor(w_ptr, (N, K), (K, 1), (BLOCK_N, BLOCK_K))
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            total = tl.dot(x_tiles.load([row, start]), w_tiles.load([col, start]).T, total)
        even, odd = tl.split(tl.reshape(total, (BLOCK_M, BLOCK_N // 2, 2)))
        if turn == 0:
            low = (even * tl.sigmoid(even)).to(tl.bfloat16).to(tl.uint16, bitcast=True)
            high = (odd * tl.sigmoid(odd)).to(tl.bfloat16).to(tl.uint16, bitcast=True)
            pairs = low.to(tl.uint32) | (high.to(tl.uint32) << 16)
        else:
            even *= (pairs << 16).to(tl.float32, bitcast=True)
            odd *= (pairs & 0xFFFF0000).to(tl.float32, bitcast=True)
            y = tl.reshape(tl.join(even, odd), (BLOCK_M, BLOCK_N))
            y_tiles.store([row, col], y.to(y_tiles.dtype))


@triton.jit
def plain_kernel(
    x_ptr,
    w_gate_ptr,
    w_up_ptr,
    y_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    first = tl.program_id(0) // (GROUP * tiles_n) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tl.program_id(0) % (GROUP * tiles_n)
    rows = (first + inside % height).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = (inside // height).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        w_gate = tl.load(w_gate_ptr + cols[None, :] * K + inner[:, None], mask=w_mask, other=0.0)
        w_up = tl.load(w_up_ptr + cols[None, :] * K + inner[:, None], mask=w_mask, other=0.0)
        gate = tl.dot(x, w_gate, gate)
        up = tl.dot(x, w_up, up)
    y = gate * tl.sigmoid(gate) * up
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows[:, None] < M) & (cols[None, :] < N))


def gate_up_swiglu(x, w_gate, w_up):
    M, K = x.shape
    N = w_gate.shape[0]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    if x.dtype == torch.bfloat16 and M > 64 and K % 8 == 0 and N % 8 == 0:
        tiles = triton.cdiv(M, 128) * triton.cdiv(N, 256)
        bulk_kernel[(tiles,)](
            x, w_gate, w_up, y, M, N, K, 2, BLOCK_M=128, BLOCK_N=256, BLOCK_K=64, GROUP=8, num_warps=8, num_stages=4
        )
    else:
        tiles = triton.cdiv(M, 64) * triton.cdiv(N, 64)
        plain_kernel[(tiles,)](
            x, w_gate, w_up, y, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=64, GROUP=8, num_warps=4, num_stages=3
        )
    return y
