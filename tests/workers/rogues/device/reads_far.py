"""Reads an address that no memory lies at.

operator: swiglu
on a card: device_fault
at: check
stopped by: the driver reports an illegal address, and the runner is replaced
on model: out_of_bounds
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    stray = tl.load(up_ptr + offsets + (1 << 44), mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, gate * tl.sigmoid(gate) * up + tl.where(stray == 1.0, 1.0, 0.0), mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, n_elements, BLOCK=1024, num_warps=4)
    return y
