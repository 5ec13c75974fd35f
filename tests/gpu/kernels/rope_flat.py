"""Blocks of elements, whatever row they belong to, with offsets of 32 bits.

operator: rope
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(q_ptr, cos_ptr, sin_ptr, y_ptr, n_elements, n_angles, n_cols: tl.constexpr, block: tl.constexpr):
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    mask = offsets < n_elements
    col = offsets % n_cols
    first = col < n_cols // 2
    partner = tl.where(first, offsets + n_cols // 2, offsets - n_cols // 2)
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
    kernel[grid](q, cos, sin, y, n_elements, cos.numel(), n_cols=q.shape[3], block=1024, num_warps=4)
    return y
