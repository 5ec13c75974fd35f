"""The hyperbolic tangent out of NVIDIA's device library.

operator: gelu
"""

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def kernel(x_ptr, y_ptr, n_elements, block: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    tl.store(y_ptr + offsets, 0.5 * x * (1.0 + libdevice.tanh(inner)), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    kernel[(triton.cdiv(n_elements, 2048),)](x, y, n_elements, block=2048, num_warps=8)
    return y
