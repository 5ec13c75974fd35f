"""Few tokens: features taken four apart, every warp with its own. Many: weights as bytes first, then a product.

A byte holds the codes of four features, so that the first features of all fours meet the lowest bits of all bytes, and
so on: nothing has to be put side by side. With many tokens the weights are unpacked once, into a matrix of bytes.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def weights(packed):
    return ((packed & 3).to(tl.int8) - 1).to(tl.int8)


@triton.jit
def few_kernel(
    x_ptr,
    x_scale_ptr,
    w_ptr,
    w_scale_ptr,
    y_ptr,
    M,
    N,
    J,
    PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(1).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    parts, places, features = tl.arange(0, PARTS), tl.arange(0, 32), tl.arange(0, 128)
    total = tl.zeros((PARTS, BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, J, PARTS * 32):
        fours = start + parts[:, None] * 32 + places[None, :]
        inside = (fours < J)[:, :, None] & (cols < N)[None, None, :]
        packed = tl.load(w_ptr + cols[None, None, :] * J + fours[:, :, None], mask=inside, other=0)
        inner = start * 4 + parts[:, None] * 128 + features[None, :]
        inside = (rows < M)[None, :, None] & (inner < 4 * J)[:, None, :]
        # Beyond the last feature x is zero, so weights may be anything there.
        x = tl.load(x_ptr + rows[None, :, None] * (4 * J) + inner[:, None, :], mask=inside, other=0)
        even, odd = tl.split(tl.reshape(x, (PARTS, BLOCK_M, 32, 2, 2)))
        x0, x2 = tl.split(even)
        x1, x3 = tl.split(odd)
        total = tl.dot(x0, weights(packed), total, out_dtype=tl.int32)
        total = tl.dot(x1, weights(packed >> 2), total, out_dtype=tl.int32)
        total = tl.dot(x2, weights(packed >> 4), total, out_dtype=tl.int32)
        total = tl.dot(x3, weights(packed >> 6), total, out_dtype=tl.int32)
    x_scale = tl.load(x_scale_ptr + rows, mask=rows < M, other=0.0)
    y = tl.sum(total, axis=0).to(tl.float32) * x_scale[:, None] * tl.load(w_scale_ptr)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def unpack_kernel(w_ptr, weight_ptr, n_bytes, BLOCK: tl.constexpr):
    start = tl.program_id(0).to(tl.int64) * BLOCK
    places, features = start + tl.arange(0, BLOCK), start * 4 + tl.arange(0, 4 * BLOCK)
    packed = tl.load(w_ptr + places, mask=places < n_bytes, other=0)
    even = tl.join(weights(packed), weights(packed >> 4))
    odd = tl.join(weights(packed >> 2), weights(packed >> 6))
    found = tl.reshape(tl.join(even, odd), (4 * BLOCK,))
    tl.store(weight_ptr + features, found, mask=features < 4 * n_bytes)


@triton.jit
def many_kernel(
    x_ptr,
    x_scale_ptr,
    weight_ptr,
    w_scale_ptr,
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
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0)
        weight = tl.load(weight_ptr + cols[None, :] * K + inner[:, None], mask=w_mask, other=0)
        total = tl.dot(x, weight, total, out_dtype=tl.int32)
    x_scale = tl.load(x_scale_ptr + rows, mask=rows < M, other=0.0)
    y = total.to(tl.float32) * x_scale[:, None] * tl.load(w_scale_ptr)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows[:, None] < M) & (cols[None, :] < N))


def ternary_matmul(x, x_scale, w, w_scale):
    M, fours, width = x.shape
    N = w.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
    if M <= 64:
        grid = (triton.cdiv(N, 32), triton.cdiv(M, 16))
        few_kernel[grid](
            x, x_scale, w, w_scale, y, M, N, fours, PARTS=8, BLOCK_M=16, BLOCK_N=32, num_warps=8, num_stages=3
        )
        return y
    weight = torch.empty((N, fours * width), dtype=torch.int8, device=x.device)
    unpack_kernel[(triton.cdiv(N * fours, 1024),)](w, weight, N * fours, BLOCK=1024, num_warps=4)
    tiles = triton.cdiv(M, 128) * triton.cdiv(N, 256)
    many_kernel[(tiles,)](
        x,
        x_scale,
        weight,
        w_scale,
        y,
        M,
        N,
        fours * width,
        BLOCK_M=128,
        BLOCK_N=256,
        BLOCK_K=128,
        GROUP=8,
        num_warps=8,
        num_stages=4,
    )
    return y
