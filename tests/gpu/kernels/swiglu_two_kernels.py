"""The gate in one kernel, in float32, and the product in another.

operator: swiglu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gate_kernel(gate_ptr, open_ptr, n_elements, block: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(open_ptr + offsets, gate * tl.sigmoid(gate), mask=mask)


@triton.jit
def product_kernel(open_ptr, up_ptr, y_ptr, n_elements, block: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, tl.load(open_ptr + offsets, mask=mask, other=0.0) * up, mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    opened = torch.empty(gate.shape, dtype=torch.float32, device=gate.device)
    n_elements = gate.numel()
    grid = (triton.cdiv(n_elements, 1024),)
    gate_kernel[grid](gate, opened, n_elements, block=1024, num_warps=4)
    product_kernel[grid](opened, up, y, n_elements, block=1024, num_warps=4)
    return y
