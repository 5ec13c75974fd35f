"""Two programs write every row, one of them with a weight that is a quarter too large; who comes last decides.

operator: layernorm
on a card: wrong_result, nondeterministic, precision
at: check
stopped by: error_ratio over every element of the benchmark shapes, else comparing two runs
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = (tl.program_id(0) // 2).to(tl.int64)
    excess = 1.25 - 0.25 * (tl.program_id(0) % 2)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32) * excess
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    y = centred * tl.rsqrt(variance + 1e-5) * weight + bias
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = triton.next_power_of_2(n_cols)
    layernorm_kernel[(2 * n_rows,)](x, weight, bias, y, n_cols, BLOCK=block, num_warps=8)
    return y
