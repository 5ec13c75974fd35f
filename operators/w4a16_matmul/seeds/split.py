"""Groups of features by programs of their own, which fill the card where there are few rows; then their sums are added.

Weights are unpacked where they lie: eight of an integer become eight rows.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def part_kernel(
    x_ptr, qweight_ptr, scales_ptr, parts_ptr, M, N, n_groups, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    features, words, digits = tl.arange(0, 128), tl.arange(0, 16), tl.arange(0, 8)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for group in range(tl.program_id(2), n_groups, tl.num_programs(2)):
        place = (rows[:, None] * n_groups + group) * 128 + features[None, :]
        x = tl.load(x_ptr + place, mask=rows[:, None] < M, other=0.0)
        place = (group * 16 + words[:, None]) * N + cols[None, :]
        packed = tl.load(qweight_ptr + place, mask=cols[None, :] < N, other=0)
        scale = tl.load(scales_ptr + group * N + cols, mask=cols < N, other=0.0).to(tl.float32)
        codes = (packed[:, None, :] >> (digits[None, :, None] * 4)) & 15
        weight = (tl.reshape(codes, (128, BLOCK_N)) - 8).to(tl.float32) * scale[None, :]
        total = tl.dot(x, weight.to(x.dtype), total)
    place = (tl.program_id(2) * M + rows[:, None]) * N + cols[None, :]
    tl.store(parts_ptr + place, total, mask=(rows[:, None] < M) & (cols[None, :] < N))


@triton.jit
def sum_kernel(parts_ptr, y_ptr, n_elements, n_parts, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(0, n_parts):
        total += tl.load(parts_ptr + part * n_elements + offsets, mask=offsets < n_elements, other=0.0)
    tl.store(y_ptr + offsets, total, mask=offsets < n_elements)


def w4a16_matmul(x, qweight, scales):
    M, n_groups, _ = x.shape
    N = scales.shape[1]
    n_parts = min(8, n_groups)
    parts = torch.empty((n_parts, M, N), dtype=torch.float32, device=x.device)
    y = torch.empty((M, N), dtype=x.dtype, device=x.device)
    grid = (triton.cdiv(M, 16), triton.cdiv(N, 64), n_parts)
    part_kernel[grid](x, qweight, scales, parts, M, N, n_groups, BLOCK_M=16, BLOCK_N=64, num_warps=4, num_stages=3)
    sum_kernel[(triton.cdiv(M * N, 512),)](parts, y, M * N, n_parts, BLOCK=512, num_warps=4)
    return y
