"""Three configurations, each of which becomes a variant with a verdict of its own.

operator: softmax
"""

import torch
import triton
import triton.language as tl

CONFIGURATIONS = [triton.Config({}, num_warps=2), triton.Config({}, num_warps=4), triton.Config({}, num_warps=16)]


@triton.autotune(CONFIGURATIONS, key=["n_cols"])
@triton.heuristics({"block": lambda given: triton.next_power_of_2(given["n_cols"])})
@triton.jit
def kernel(x_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    cols = tl.arange(0, block)
    mask = cols < n_cols
    x = tl.load(x_ptr + row + cols, mask=mask, other=-float("inf")).to(tl.float32)
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row + cols, numerator * (1.0 / tl.sum(numerator, axis=0)), mask=mask)


def softmax(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    kernel[(n_rows,)](x, y, n_cols)
    return y
