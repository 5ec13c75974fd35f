"""Both projections by a program for each of 132 SMs, for tile after tile; moved in bulk where rows are aligned."""

import torch
import triton
import triton.language as tl


@triton.jit
def bulk_kernel(
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
    x_tiles = tl.make_tensor_descriptor(x_ptr, (M, K), (K, 1), (BLOCK_M, BLOCK_K))
    gate_tiles = tl.make_tensor_descriptor(w_gate_ptr, (N, K), (K, 1), (BLOCK_N, BLOCK_K))
    up_tiles = tl.make_tensor_descriptor(w_up_ptr, (N, K), (K, 1), (BLOCK_N, BLOCK_K))
    y_tiles = tl.make_tensor_descriptor(y_ptr, (M, N), (N, 1), (BLOCK_M, BLOCK_N))
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first = tile // (GROUP * tiles_n) * GROUP
        height = tl.minimum(tiles_m - first, GROUP)
        inside = tile % (GROUP * tiles_n)
        row, col = (first + inside % height) * BLOCK_M, (inside // height) * BLOCK_N
        gate = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        up = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            x = x_tiles.load([row, start])
            gate = tl.dot(x, gate_tiles.load([col, start]).T, gate)
            up = tl.dot(x, up_tiles.load([col, start]).T, up)
        y_tiles.store([row, col], (gate * tl.sigmoid(gate) * up).to(y_tiles.dtype))


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
    tiles = triton.cdiv(M, 128) * triton.cdiv(N, 128)
    if K % 8 == 0 and N % 8 == 0:
        bulk_kernel[(min(tiles, 132),)](
            x, w_gate, w_up, y, M, N, K, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP=8, num_warps=8, num_stages=3
        )
    else:
        plain_kernel[(tiles,)](
            x, w_gate, w_up, y, M, N, K, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP=8, num_warps=8, num_stages=3
        )
    return y
