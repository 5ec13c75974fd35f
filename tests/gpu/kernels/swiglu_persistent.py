"""Few programs that stride over all blocks, with loads that leave the cache to others.

operator: swiglu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(gate_ptr, up_ptr, y_ptr, n_elements, block: tl.constexpr):
    blocks = tl.cdiv(n_elements, block)
    for index in range(tl.program_id(0), blocks, tl.num_programs(0)):
        offsets = index.to(tl.int64) * block + tl.arange(0, block)
        mask = offsets < n_elements
        gate = tl.load(gate_ptr + offsets, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
        up = tl.load(up_ptr + offsets, mask=mask, other=0.0, cache_modifier=".cg").to(tl.float32)
        tl.store(y_ptr + offsets, gate / (1.0 + tl.exp(-gate)) * up, mask=mask, cache_modifier=".cs")


def swiglu(gate, up):
    y = torch.empty_like(gate)
    n_elements = gate.numel()
    blocks = triton.cdiv(n_elements, 4096)
    programs = min(blocks, 4 * torch.cuda.get_device_properties(gate.device).multi_processor_count)
    kernel[(programs,)](gate, up, y, n_elements, block=4096, num_warps=8)
    return y
