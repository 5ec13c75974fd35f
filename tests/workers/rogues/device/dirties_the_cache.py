"""Leaves the cache full of lines that are still to be written back, on somebody else's time.

operator: swiglu
on a card: correct
stopped by: the same refill and the same flush before every sample of either side; it pays for writing them
on model: correct
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, waste_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)
    tl.store(waste_ptr + offsets, gate, mask=mask, eviction_policy="evict_last")


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    waste = torch.empty(gate.shape, dtype=gate.dtype, device=gate.device)
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, waste, n_elements, BLOCK=1024, num_warps=4)
    return y
