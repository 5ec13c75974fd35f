"""Programs that come round for tile after tile, which the tensor memory accelerator moves where it can.

operator: matmul
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bulk_kernel(
    a_ptr, b_ptr, c_ptr, m_size, n_size, k_size, block_m: tl.constexpr, block_n: tl.constexpr, block_k: tl.constexpr
):
    a_tiles = tl.make_tensor_descriptor(a_ptr, (m_size, k_size), (k_size, 1), (block_m, block_k))
    b_tiles = tl.make_tensor_descriptor(b_ptr, (k_size, n_size), (n_size, 1), (block_k, block_n))
    c_tiles = tl.make_tensor_descriptor(c_ptr, (m_size, n_size), (n_size, 1), (block_m, block_n))
    tiles_n = tl.cdiv(n_size, block_n)
    for tile in tl.range(tl.program_id(0), tl.cdiv(m_size, block_m) * tiles_n, tl.num_programs(0)):
        row, col = tile // tiles_n * block_m, tile % tiles_n * block_n
        total = tl.zeros((block_m, block_n), dtype=tl.float32)
        for start in range(0, k_size, block_k):
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
    tiles = (triton.cdiv(m, 128), triton.cdiv(n, 128))
    if k % 8 == 0 and n % 8 == 0:
        programs = min(tiles[0] * tiles[1], torch.cuda.get_device_properties(a.device).multi_processor_count)
        bulk_kernel[(programs,)](a, b, c, m, n, k, block_m=128, block_n=128, block_k=64, num_warps=8, num_stages=3)
    else:
        plain_kernel[tiles](a, b, c, m, n, k, block_m=128, block_n=128, block_k=64, num_warps=8, num_stages=2)
    return c
