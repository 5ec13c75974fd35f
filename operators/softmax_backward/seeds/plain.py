"""Softmax and its gradient, one program a row, the row in one block.

The backward kernel computes the row again from x: y is rounded to bfloat16, and sums of it would carry that on.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def softmax_backward_kernel(grad_y_ptr, x_ptr, grad_x_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    grad_y = tl.load(grad_y_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    y = numerator / tl.sum(numerator, axis=0)
    grad_x = y * (grad_y - tl.sum(y * grad_y, axis=0))
    tl.store(grad_x_ptr + row * n_cols + cols, grad_x, mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y


def softmax_backward(grad_y, x, y):
    n_rows, n_cols = x.shape
    grad_x = torch.empty_like(x)
    softmax_backward_kernel[(n_rows,)](grad_y, x, grad_x, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return grad_x
