"""Keeps intermediate values in its own rows of the input and restores them before it ends.

On a model a NaN that is written back may have other bits.

operator: softmax
on a card: correct
stopped by: nothing: no byte differs afterwards and nobody else reads in between; it only costs time
on model: correct, input_mutated
"""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    given = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"))
    tl.store(x_ptr + row * n_cols + cols, given * 2, mask=mask)
    tl.debug_barrier()
    x = 0.5 * tl.load(x_ptr + row * n_cols + cols, mask=mask, other=-float("inf"), volatile=True).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * n_cols + cols, numerator / tl.sum(numerator, axis=0), mask=mask)
    tl.debug_barrier()
    tl.store(x_ptr + row * n_cols + cols, given, mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    softmax_kernel[(n_rows,)](x, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
