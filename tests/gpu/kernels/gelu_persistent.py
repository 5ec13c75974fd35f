"""Two programs a multiprocessor, which come round for block after block.

operator: gelu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_of(x):
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(inner)


@triton.jit
def kernel(x_ptr, y_ptr, n_elements, block: tl.constexpr):
    for index in tl.range(tl.program_id(0), tl.cdiv(n_elements, block), tl.num_programs(0), num_stages=3):
        offsets = index.to(tl.int64) * block + tl.arange(0, block)
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, gelu_of(x), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    most = 2 * torch.cuda.get_device_properties(x.device).multi_processor_count
    kernel[(min(most, triton.cdiv(n_elements, 2048)),)](x, y, n_elements, block=2048, num_warps=8)
    return y
