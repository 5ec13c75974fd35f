"""Sums rows and their squares on the matrix units in TF32, which the contract does not allow.

operator: layernorm
on a card: precision, wrong_result
at: check
stopped by: error_ratio on the shifted draw, where the squares' low bits are the variance
on model: precision, wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def row_sum(values, BLOCK: tl.constexpr):
    ones = tl.full((BLOCK // 16, 16), 1.0, dtype=tl.float32)
    parts = tl.dot(tl.reshape(values, (16, BLOCK // 16)), ones, input_precision="tf32")
    return tl.sum(tl.max(parts, axis=1), axis=0)


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = row_sum(x, BLOCK) / n_cols
    variance = tl.maximum(row_sum(x * x, BLOCK) / n_cols - mean * mean, 0.0)
    tl.store(y_ptr + row * n_cols + cols, (x - mean) * tl.rsqrt(variance + 1e-5) * weight + bias, mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    block = max(256, triton.next_power_of_2(n_cols))
    layernorm_kernel[(n_rows,)](x, weight, bias, y, n_cols, BLOCK=block, num_warps=8)
    return y
