"""Product of 8-bit integers with ternary weights in the matrix units, unpacked tile by tile."""

import torch
import triton
import triton.language as tl


@triton.jit
def ternary_matmul_kernel(
    x_ptr,
    x_scale_ptr,
    w_ptr,
    w_scale_ptr,
    y_ptr,
    M,
    N,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1).to(tl.int64) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.int32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows[:, None] < M) & (inner[None, :] < K)
        w_mask = (inner[:, None] < K) & (cols[None, :] < N)
        # Beyond the last feature x is zero, so weights may be anything there.
        x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0)
        packed = tl.load(w_ptr + cols[None, :] * (K // 4) + inner[:, None] // 4, mask=w_mask, other=0)
        codes = (packed.to(tl.int32) >> ((inner[:, None] % 4) * 2)) & 3
        total = tl.dot(x, (codes - 1).to(tl.int8), total, out_dtype=tl.int32)
    x_scale = tl.load(x_scale_ptr + rows, mask=rows < M, other=0.0)
    y = total.to(tl.float32) * x_scale[:, None] * tl.load(w_scale_ptr)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], y, mask=(rows[:, None] < M) & (cols[None, :] < N))


def ternary_matmul(x, x_scale, w, w_scale):
    M, fours, width = x.shape
    N = w.shape[0]
    y = torch.empty((M, N), dtype=torch.bfloat16, device=x.device)
    grid = (triton.cdiv(M, 32), triton.cdiv(N, 64))
    ternary_matmul_kernel[grid](
        x, x_scale, w, w_scale, y, M, N, fours * width, BLOCK_M=32, BLOCK_N=64, BLOCK_K=64, num_warps=4, num_stages=3
    )
    return y
