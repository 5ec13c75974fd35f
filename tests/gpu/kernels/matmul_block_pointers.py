"""Tiles addressed by block pointers.

operator: matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    row, col = tl.program_id(0) * block_m, tl.program_id(1) * block_n
    a_tile = tl.make_block_ptr(a_ptr, (m_size, k_size), (k_size, 1), (row, 0), (block_m, block_k), (1, 0))
    b_tile = tl.make_block_ptr(b_ptr, (k_size, n_size), (n_size, 1), (0, col), (block_k, block_n), (1, 0))
    c_tile = tl.make_block_ptr(c_ptr, (m_size, n_size), (n_size, 1), (row, col), (block_m, block_n), (1, 0))
    total = tl.zeros((block_m, block_n), dtype=tl.float32)
    for _ in range(0, k_size, block_k):
        a = tl.load(a_tile, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_tile, boundary_check=(0, 1), padding_option="zero")
        total = tl.dot(a, b, total)
        a_tile = tl.advance(a_tile, (0, block_k))
        b_tile = tl.advance(b_tile, (block_k, 0))
    tl.store(c_tile, total.to(tl.bfloat16), boundary_check=(0, 1))


def matmul(a, b):
    (m, k), n = a.shape, b.shape[1]
    c = torch.empty((m, n), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m, 128), triton.cdiv(n, 64))
    kernel[grid](a, b, c, m, n, k, block_m=128, block_n=64, block_k=64, num_warps=4, num_stages=3)
    return c
