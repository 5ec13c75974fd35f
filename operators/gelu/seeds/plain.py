"""GELU (tanh) over flat blocks. `(1 + tanh(z)) / 2` is `sigmoid(2 z)`, which needs no library call."""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_kernel(x_ptr, y_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    y = x * tl.sigmoid(2.0 * inner)
    tl.store(y_ptr + offsets, y, mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y
