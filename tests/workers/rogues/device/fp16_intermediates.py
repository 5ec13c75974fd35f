"""Multiplies in float16, which ordinary values fit and large ones do not.

operator: swiglu
on a card: wrong_result, precision
at: check
stopped by: special_values and error_ratio on the heavy draw
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_kernel(gate_ptr, up_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0)
    y = (gate * tl.sigmoid(gate)).to(tl.float16) * up.to(tl.float16)
    tl.store(y_ptr + offsets, y, mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    swiglu_kernel[(triton.cdiv(n_elements, 1024),)](gate, up, y, n_elements, BLOCK=1024, num_warps=4)
    return y
