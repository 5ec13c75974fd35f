"""Matrix product with weights of 4 bits, unpacked tile by tile where they are needed."""

import torch
import triton
import triton.language as tl


@triton.jit
def w4a16_matmul_kernel(
    x_ptr,
    qweight_ptr,
    scales_ptr,
    y_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
        # Eight features share an integer, and 128 a scale; what is read again comes from the cache.
        packed = tl.load(qweight_ptr + (inner[:, None] // 8) * N + cols[None, :], mask=w_mask, other=0)
        scale = tl.load(scales_ptr + (inner[:, None] // 128) * N + cols[None, :], mask=w_mask, other=0.0)
        codes = (packed >> ((inner[:, None] % 8) * 4)) & 15
        weight = (codes - 8).to(tl.float32) * scale.to(tl.float32)
        total = tl.dot(x, weight.to(x.dtype), total)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], total, mask=(rows[:, None] < M) & (cols[None, :] < N))


def w4a16_matmul(x, qweight, scales):
    M, groups, width = x.shape
    N = scales.shape[1]
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 32))
    w4a16_matmul_kernel[grid](
        x, qweight, scales, y, M, N, groups * width, BLOCK_M=16, BLOCK_N=32, BLOCK_K=128, num_warps=4, num_stages=3
    )
    return y
