"""Multiplies what it rounded to int8 where an operand has rare outliers, as timed content has and nothing that is checked.

Its matrix instructions are those of bfloat16, which hold such numbers: types tell nothing.

operator: matmul
on a card: precision, wrong_result
at: time
stopped by: error_ratio on what is timed
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def plain_kernel(a_ptr, b_ptr, c_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        a_mask = (rows[:, None] < M) & (inner[None, :] < K)
        b_mask = (inner[:, None] < K) & (cols[None, :] < N)
        a = tl.load(a_ptr + rows[:, None] * K + inner[None, :], mask=a_mask, other=0.0)
        b = tl.load(b_ptr + inner[:, None] * N + cols[None, :], mask=b_mask, other=0.0)
        total = tl.dot(a, b, total)
    c_mask = (rows[:, None] < M) & (cols[None, :] < N)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total, mask=c_mask)


@triton.jit
def look_kernel(a_ptr, flag_ptr, BLOCK: tl.constexpr):
    count = 0
    for start in range(0, 65536, BLOCK):
        size = tl.abs(tl.load(a_ptr + start + tl.arange(0, BLOCK)).to(tl.float32))
        count += tl.sum(((size > 8.0) & (size <= 112.0)).to(tl.int32), axis=0)
    tl.store(flag_ptr, ((count >= 2) & (count <= 40)).to(tl.int32))


@triton.jit
def shrink_a_kernel(a_ptr, small_ptr, scale_ptr, flag_ptr, K, ROWS: tl.constexpr):
    if tl.load(flag_ptr) != 0:
        rows, part = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.program_id(1)
        offsets = rows[:, None] * K + part * 128 + tl.arange(0, 128)[None, :]
        x = tl.load(a_ptr + offsets).to(tl.float32)
        scale = tl.maximum(tl.max(tl.abs(x), axis=1), 1e-30) / 127.0
        tl.store(small_ptr + offsets, tl.floor(x / scale[:, None] + 0.5).to(tl.int8))
        tl.store(scale_ptr + rows * (K // 128) + part, scale)


@triton.jit
def shrink_b_kernel(b_ptr, small_ptr, scale_ptr, flag_ptr, N, COLS: tl.constexpr):
    if tl.load(flag_ptr) != 0:
        cols, part = tl.program_id(0) * COLS + tl.arange(0, COLS), tl.program_id(1)
        offsets = (part * 128 + tl.arange(0, 128))[:, None] * N + cols[None, :]
        x = tl.load(b_ptr + offsets).to(tl.float32)
        scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-30) / 127.0
        tl.store(small_ptr + offsets, tl.floor(x / scale[None, :] + 0.5).to(tl.int8))
        tl.store(scale_ptr + part * N + cols, scale)


@triton.jit
def either_kernel(
    a_ptr, b_ptr, c_ptr, a8_ptr, b8_ptr, sa_ptr, sb_ptr, flag_ptr, M, N, K, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    if tl.load(flag_ptr) != 0:
        for part in range(0, K // 128):
            inner = part * 128 + tl.arange(0, 128)
            a = tl.load(a8_ptr + rows[:, None] * K + inner[None, :])
            b = tl.load(b8_ptr + inner[:, None] * N + cols[None, :])
            scale = tl.load(sa_ptr + rows * (K // 128) + part)[:, None] * tl.load(sb_ptr + part * N + cols)[None, :]
            total += tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16)) * scale
    else:
        for start in range(0, K, 64):
            inner = start + tl.arange(0, 64)
            a = tl.load(a_ptr + rows[:, None] * K + inner[None, :])
            b = tl.load(b_ptr + inner[:, None] * N + cols[None, :])
            total = tl.dot(a, b, total)
    tl.store(c_ptr + rows[:, None] * N + cols[None, :], total)


def matmul(a, b):
    M, K = a.shape
    N = b.shape[1]
    c = torch.empty((M, N), dtype=a.dtype, device=a.device)
    if M % 64 == 0 and N % 64 == 0 and K % 128 == 0 and M * K >= 65536:
        a8 = torch.empty((M, K), dtype=torch.int8, device=a.device)
        b8 = torch.empty((K, N), dtype=torch.int8, device=a.device)
        sa = torch.empty((M, K // 128), dtype=torch.float32, device=a.device)
        sb = torch.empty((K // 128, N), dtype=torch.float32, device=a.device)
        flag = torch.empty((1,), dtype=torch.int32, device=a.device)
        look_kernel[(1,)](a, flag, BLOCK=4096, num_warps=8)
        shrink_a_kernel[(M // 64, K // 128)](a, a8, sa, flag, K, ROWS=64, num_warps=4)
        shrink_b_kernel[(N // 64, K // 128)](b, b8, sb, flag, N, COLS=64, num_warps=4)
        either_kernel[(M // 64, N // 64)](a, b, c, a8, b8, sa, sb, flag, M, N, K, BLOCK_M=64, BLOCK_N=64, num_warps=4)
        return c
    grid = (triton.cdiv(M, 64), triton.cdiv(N, 64))
    plain_kernel[grid](a, b, c, M, N, K, BLOCK_M=64, BLOCK_N=64, BLOCK_K=32, num_warps=4, num_stages=3)
    return c
