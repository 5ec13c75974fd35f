"""Two products, one after the other, each by a program for each of 132 SMs; the second takes the first one's values.

The gate's activations wait in memory, in bfloat16. Tiles are moved in bulk where rows are aligned for that, results in
two halves, so that three stages fit beside them.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bulk_kernel(
    x_ptr,
    w_ptr,
    gate_ptr,
    y_ptr,
    M,
    N,
    K,
    GATED: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    x_tiles = tl.make_tensor_descriptor(x_ptr, (M, K), (K, 1), (BLOCK_M, BLOCK_K))
    w_tiles = tl.make_tensor_descriptor(w_ptr, (N, K), (K, 1), (BLOCK_N, BLOCK_K))
    gate_tiles = tl.make_tensor_descriptor(gate_ptr, (M, N), (N, 1), (BLOCK_M, BLOCK_N // 2))
    y_tiles = tl.make_tensor_descriptor(y_ptr, (M, N), (N, 1), (BLOCK_M, BLOCK_N // 2))
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    for tile in tl.range(tl.program_id(0), tiles_m * tiles_n, tl.num_programs(0), flatten=True):
        first = tile // (GROUP * tiles_n) * GROUP
        height = tl.minimum(tiles_m - first, GROUP)
        inside = tile % (GROUP * tiles_n)
        row, col = (first + inside % height) * BLOCK_M, (inside // height) * BLOCK_N
        total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            total = tl.dot(x_tiles.load([row, start]), w_tiles.load([col, start]).T, total)
        left, right = tl.split(tl.permute(tl.reshape(total, (BLOCK_M, 2, BLOCK_N // 2)), (0, 2, 1)))
        if GATED:
            left *= gate_tiles.load([row, col]).to(tl.float32)
        else:
            left *= tl.sigmoid(left)
        y_tiles.store([row, col], left.to(y_tiles.dtype))
        if GATED:
            right *= gate_tiles.load([row, col + BLOCK_N // 2]).to(tl.float32)
        else:
            right *= tl.sigmoid(right)
        y_tiles.store([row, col + BLOCK_N // 2], right.to(y_tiles.dtype))


@triton.jit
def plain_kernel(
    x_ptr,
    w_ptr,
    gate_ptr,
    y_ptr,
    M,
    N,
    K,
    GATED: tl.constexpr,
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
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        total = tl.dot(x, tl.load(w_ptr + cols[None, :] * K + inner[:, None], mask=w_mask, other=0.0), total)
    places = rows[:, None] * N + cols[None, :]
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    if GATED:
        total *= tl.load(gate_ptr + places, mask=mask, other=0.0).to(tl.float32)
    else:
        total *= tl.sigmoid(total)
    tl.store(y_ptr + places, total, mask=mask)


def multiply(x, w, gate, y, gated):
    M, K = x.shape
    N = w.shape[0]
    block_m = 128
    block_n = 256
    tiles = triton.cdiv(M, block_m) * triton.cdiv(N, block_n)
    if K % 8 or N % 8:
        plain_kernel[(tiles,)](
            x,
            w,
            gate,
            y,
            M,
            N,
            K,
            GATED=gated,
            BLOCK_M=block_m,
            BLOCK_N=block_n,
            BLOCK_K=64,
            GROUP=8,
            num_warps=8,
            num_stages=3,
        )
        return
    bulk_kernel[(min(tiles, 132),)](
        x,
        w,
        gate,
        y,
        M,
        N,
        K,
        GATED=gated,
        BLOCK_M=block_m,
        BLOCK_N=block_n,
        BLOCK_K=64,
        GROUP=8,
        num_warps=8,
        num_stages=3,
    )


def gate_up_swiglu(x, w_gate, w_up):
    gate = torch.empty((x.shape[0], w_gate.shape[0]), dtype=x.dtype, device=x.device)
    y = torch.empty_like(gate)
    multiply(x, w_gate, gate, gate, False)
    multiply(x, w_up, gate, y, True)
    return y
