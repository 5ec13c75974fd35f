"""Takes products tile by tile into a float32 sum outside of the matrix unit.

operator: matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    rows = tl.program_id(0) * block_m + tl.arange(0, block_m)
    cols = tl.program_id(1) * block_n + tl.arange(0, block_n)
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in range(0, k_size, block_k):
        inner = start + tl.arange(0, block_k)
        a_mask = (rows[:, None] < m_size) & (inner[None, :] < k_size)
        b_mask = (inner[:, None] < k_size) & (cols[None, :] < n_size)
        a = tl.load(a_ptr + rows[:, None] * k_size + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * n_size + cols[None, :], mask=b_mask, other=0.0)
        total += tl.dot(a, b)
    mask = (rows[:, None] < m_size) & (cols[None, :] < n_size)
    tl.store(c_ptr + rows[:, None] * n_size + cols[None, :], total, mask=mask)


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 64))
    kernel[grid](a, b, c, m, n, k, block_m=128, block_n=64, block_k=64, num_warps=8, num_stages=4)
    return c
