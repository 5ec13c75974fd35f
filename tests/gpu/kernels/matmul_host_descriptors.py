"""Descriptors made by host code and passed to the kernel, where rows are aligned for that.

operator: matmul
"""

import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


@triton.jit
def by_descriptors(
    a_desc, b_desc, c_desc, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    m = tl.program_id(0) * block_m
    n = tl.program_id(1) * block_n
    acc = tl.zeros((block_m, block_n), tl.float32)
    for k in range(0, k_size, block_k):
        a = a_desc.load([m, k])
        b = b_desc.load([k, n])
        acc = tl.dot(a, b, acc)
    c_desc.store([m, n], acc.to(tl.bfloat16))


@triton.jit
def by_pointers(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    rows = (tl.program_id(0) * block_m + tl.arange(0, block_m)).to(tl.int64)
    cols = (tl.program_id(1) * block_n + tl.arange(0, block_n)).to(tl.int64)
    acc = tl.zeros((block_m, block_n), tl.float32)
    for k in range(0, k_size, block_k):
        inner = k + tl.arange(0, block_k)
        a = tl.load(
            a_ptr + rows[:, None] * k_size + inner[None, :],
            mask=(rows[:, None] < m_size) & (inner[None, :] < k_size),
            other=0.0,
        )
        b = tl.load(
            b_ptr + inner[:, None].to(tl.int64) * n_size + cols[None, :],
            mask=(inner[:, None] < k_size) & (cols[None, :] < n_size),
            other=0.0,
        )
        acc = tl.dot(a, b, acc)
    tl.store(
        c_ptr + rows[:, None] * n_size + cols[None, :],
        acc.to(tl.bfloat16),
        mask=(rows[:, None] < m_size) & (cols[None, :] < n_size),
    )


def matmul(a, b):
    (m_size, k_size), n_size = a.shape, b.shape[1]
    c = torch.empty((m_size, n_size), dtype=a.dtype, device=a.device)
    grid = (triton.cdiv(m_size, 128), triton.cdiv(n_size, 128))
    if k_size % 8 or n_size % 8:
        by_pointers[grid](a, b, c, m_size, n_size, k_size, block_m=128, block_n=128, block_k=32, num_warps=8)
        return c
    a_desc = TensorDescriptor.from_tensor(a, [128, 64])
    b_desc = TensorDescriptor.from_tensor(b, [64, 128])
    c_desc = TensorDescriptor.from_tensor(c, [128, 128])
    by_descriptors[grid](
        a_desc, b_desc, c_desc, m_size, n_size, k_size, block_m=128, block_n=128, block_k=64, num_warps=8, num_stages=3
    )
    return c
