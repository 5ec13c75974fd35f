"""The sum over K split among programs that add by float32 atomics: no two runs give quite the same bits.

operator: matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def partial_kernel(a_ptr, b_ptr, sums_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(tl.program_id(2) * BLOCK_K, K, tl.num_programs(2) * BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    c_mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.atomic_add(sums_ptr + rows[:, None] * N + cols[None, :], total, mask=c_mask)


@triton.jit
def round_kernel(sums_ptr, c_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    tl.store(c_ptr + offsets, tl.load(sums_ptr + offsets, mask=mask), mask=mask)


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    sums = torch.zeros((M, N), dtype=torch.float32, device=a.device)
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64), min(8, triton.cdiv(K, 32)))
    partial_kernel[grid](a, b, sums, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3)
    round_kernel[(triton.cdiv(M * N, 1024),)](sums, c, M * N, BLOCK=1024)
    return c
