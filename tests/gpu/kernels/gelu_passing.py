"""Says of every line that nobody will come back for it.

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
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0, eviction_policy="evict_first").to(tl.float32)
    tl.store(y_ptr + offsets, gelu_of(x), mask=mask, cache_modifier=".cs")


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    kernel[(triton.cdiv(n_elements, 4096),)](x, y, n_elements, block=4096, num_warps=8)
    return y
