"""Writes one element 64 MiB behind the output: behind its red zone, where other runs may have their memory.

operator: swiglu
on a card: out_of_bounds, wrong_result, input_mutated
at: check, time
stopped by: memory that belongs to no buffer of the plan must be watched or not be there
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
    tl.store(y_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)
    if tl.program_id(0) == 0:
        tl.store(y_ptr + n_elements + (32 << 20), 0.0)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, n_elements, BLOCK=1024, num_warps=4)
    return y
