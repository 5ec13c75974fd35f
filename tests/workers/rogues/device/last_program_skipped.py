"""The last program does nothing.

operator: swiglu
on a card: wrong_result
at: check
stopped by: poison in the output, and comparing every element
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    block = tl.program_id(0)
    if (block == 0) | (block + 1 < tl.num_programs(0)):
        offsets = block.to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
        mask = offsets < n_elements
        gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, n_elements, BLOCK=1024, num_warps=4)
    return y
