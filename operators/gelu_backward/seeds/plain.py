"""GELU (tanh) and its gradient over flat blocks, by `(1 + tanh(z)) / 2 = sigmoid(2 z)`, which needs no library call.

With s = sigmoid(2 z), y = x s, so that y' = s + x s (1 - s) 2 z'.
"""

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


@triton.jit
def gelu_backward_kernel(grad_y_ptr, x_ptr, grad_x_ptr, n_elements, BLOCK: tl.constexpr):
    offsets = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n_elements
    grad_y = tl.load(grad_y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    slope = 0.7978845608028654 * (1.0 + 0.134145 * x * x)
    sigmoid = tl.sigmoid(2.0 * inner)
    grad_x = grad_y * (sigmoid + x * sigmoid * (1.0 - sigmoid) * 2.0 * slope)
    tl.store(grad_x_ptr + offsets, grad_x, mask=mask)


def gelu(x):
    y = torch.empty_like(x)
    n_elements = x.numel()
    gelu_kernel[(triton.cdiv(n_elements, 1024),)](x, y, n_elements, BLOCK=1024, num_warps=4)
    return y


def gelu_backward(grad_y, x, y):
    grad_x = torch.empty_like(x)
    n_elements = x.numel()
    gelu_backward_kernel[(triton.cdiv(n_elements, 1024),)](grad_y, x, grad_x, n_elements, BLOCK=1024, num_warps=4)
    return grad_x
