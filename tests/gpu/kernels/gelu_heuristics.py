"""Leaves the mask out where a heuristic finds that every block is full.

operator: gelu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def gelu_of(x):
    inner = 1.5957691216057308 * (x + 0.044715 * x * x * x)
    return x * tl.sigmoid(inner)


@triton.heuristics({"even": lambda given: given["n_elements"] % given["block"] == 0})
@triton.jit
def kernel(x_ptr, y_ptr, n_elements, block: tl.constexpr, even: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * block + tl.arange(0, block)
    if even:
        tl.store(y_ptr + offsets, gelu_of(tl.load(x_ptr + offsets).to(tl.float32)))
    else:
        mask = offsets < n_elements
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + offsets, gelu_of(x), mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, block=1024, num_warps=4)
    return y
