"""Asks the compiler for warps of their own to load tiles, where rows are aligned for that.

operator: matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bulk_kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    row, col = tl.program_id(0) * block_m, tl.program_id(1) * block_n
    a_tiles = tl.make_tensor_descriptor(a_ptr, (m_size, k_size), (k_size, 1), (block_m, block_k))
    b_tiles = tl.make_tensor_descriptor(b_ptr, (k_size, n_size), (n_size, 1), (block_k, block_n))
    c_tiles = tl.make_tensor_descriptor(c_ptr, (m_size, n_size), (n_size, 1), (block_m, block_n))
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for start in tl.range(0, k_size, block_k, warp_specialize=True):
        total = tl.dot(a_tiles.load([row, start]), b_tiles.load([start, col]), total)
    c_tiles.store([row, col], total.to(tl.bfloat16))


@triton.jit
def plain_kernel(
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
        total = tl.dot(a, b, total)
    mask = (rows[:, None] < m_size) & (cols[None, :] < n_size)
    tl.store(c_ptr + rows[:, None] * n_size + cols[None, :], total, mask=mask)


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    if k % 8 == 0 and n % 8 == 0:
        bulk_kernel[grid](a, b, c, m, n, k, block_m=128, block_n=128, block_k=64, num_warps=4, num_stages=3)
    else:
        plain_kernel[grid](a, b, c, m, n, k, block_m=128, block_n=128, block_k=64, num_warps=4, num_stages=3)
    return c
