"""Blocks of elements, whatever row they belong to, with offsets of 32 bits."""

import torch
import triton
import triton.language as tl


@triton.jit
def rope_kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_elements, n_angles, N_COLS: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    col = offsets % N_COLS
    first = col < N_COLS // 2
    partner = tl.where(first, offsets + N_COLS // 2, offsets - N_COLS // 2)
    q = tl.load(q_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    other = tl.load(q_ptr + partner, mask=mask, other=0.0).to(tl.float32)
    angle = offsets % n_angles
    cos = tl.load(cos_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    sin = tl.load(sin_ptr + angle, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, q * cos + tl.where(first, -other, other) * sin, mask=mask)


def rope(q, cos, sin):
    y = torch.empty_like(q)
    n_elements = q.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    rope_kernel[grid](q, cos, sin, y, n_elements, cos.numel(), N_COLS=q.shape[3], BLOCK=1024, num_warps=4)
    return y
