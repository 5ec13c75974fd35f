"""Six configurations to choose from.

operator: swiglu
"""

import torch
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"block": block}, num_warps=warps)
    for block, warps in ((512, 2), (512, 4), (1024, 4), (1024, 8), (2048, 4), (4096, 8))
]


@triton.autotune(configs=CONFIGS, key=["n_elements"])
@triton.jit
def kernel(gate_ptr, up_ptr, y_ptr, n_elements, block: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    up = tl.load(up_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    tl.store(y_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    kernel[lambda given: (triton.cdiv(n_elements, given["block"]),)](gate, up, y, n_elements)
    return y
