"""All features of some columns by one program, every warp with groups of its own: one launch, whose sums stay inside.

A code goes to the matrix units as a bfloat16 without any conversion, and sums of a group are scaled instead of its
weights. Eight weights share an integer, so that features are taken eight apart.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def weights(codes):
    # 128 + code is the bfloat16 whose bits are 0x4300 + code.
    return (codes & 15 | 0x4300).to(tl.int16).to(tl.bfloat16, bitcast=True) - 136.0


@triton.jit
def w4a16_matmul_kernel(
    x_ptr,
    qweight_ptr,
    scales_ptr,
    y_ptr,
    M,
    N,
    n_groups,
    PARTS: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    rows = tl.program_id(1) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    parts, features, words = tl.arange(0, PARTS), tl.arange(0, 128), tl.arange(0, 16)
    total = tl.zeros((PARTS, BLOCK_M, BLOCK_N), dtype=tl.float32)
    for first in range(0, n_groups, PARTS):
        groups = first + parts
        place = (groups[:, None, None] * 16 + words[None, :, None]) * N + cols[None, None, :]
        mask = (groups < n_groups)[:, None, None] & (cols < N)[None, None, :]
        packed = tl.load(qweight_ptr + place, mask=mask, other=0)
        place = groups[:, None] * N + cols[None, :]
        scale = tl.load(scales_ptr + place, mask=(groups < n_groups)[:, None] & (cols < N)[None, :], other=0.0)
        place = (rows[None, :, None].to(tl.int64) * n_groups + groups[:, None, None]) * 128 + features[None, None, :]
        mask = (rows < M)[None, :, None] & (groups < n_groups)[:, None, None]
        x = tl.load(x_ptr + place, mask=mask, other=0.0)
        sums = tl.zeros((PARTS, BLOCK_M, BLOCK_N), dtype=tl.float32)
        x = tl.reshape(x, (PARTS, BLOCK_M, 16, 2, 2, 2))
        x0, x1 = tl.split(x)
        x00, x01 = tl.split(x0)
        x10, x11 = tl.split(x1)
        x000, x001 = tl.split(x00)
        x010, x011 = tl.split(x01)
        x100, x101 = tl.split(x10)
        x110, x111 = tl.split(x11)
        sums = tl.dot(x000, weights(packed), sums)
        sums = tl.dot(x100, weights(packed >> 4), sums)
        sums = tl.dot(x010, weights(packed >> 8), sums)
        sums = tl.dot(x110, weights(packed >> 12), sums)
        sums = tl.dot(x001, weights(packed >> 16), sums)
        sums = tl.dot(x101, weights(packed >> 20), sums)
        sums = tl.dot(x011, weights(packed >> 24), sums)
        sums = tl.dot(x111, weights(packed >> 28), sums)
        total += sums * scale[:, None, :].to(tl.float32)
    y = tl.sum(total, axis=0)
    place = rows[:, None].to(tl.int64) * N + cols[None, :]
    tl.store(y_ptr + place, y, mask=(rows < M)[:, None] & (cols < N)[None, :])


def w4a16_matmul(x, qweight, scales):
    M, n_groups, _ = x.shape
    N = scales.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(N, 32), triton.cdiv(M, 16))
    w4a16_matmul_kernel[grid](
        x, qweight, scales, y, M, N, n_groups, PARTS=8, BLOCK_M=16, BLOCK_N=32, num_warps=8, num_stages=3
    )
    return y
