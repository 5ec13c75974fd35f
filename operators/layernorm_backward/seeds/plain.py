"""LayerNorm and its gradients, one program a row; the gradients of weight and bias by columns, without atomics.

With c = x - mean, r = rsqrt(mean(c^2) + eps), h = c r and g = grad_y weight: grad_x = r (g - mean(g) - h mean(g h)),
grad_weight = sum of grad_y h, grad_bias = sum of grad_y. The first backward kernel keeps mean and r for the second.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    y = centred * tl.rsqrt(variance + 1e-5) * weight + bias
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def layernorm_rows_kernel(grad_y_ptr, x_ptr, weight_ptr, grad_x_ptr, mean_ptr, scale_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    grad_y = tl.load(grad_y_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n_cols
    centred = tl.where(mask, x - mean, 0.0)
    scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + 1e-5)
    normal = centred * scale
    straight = grad_y * weight
    shifted = tl.sum(straight, axis=0) / n_cols
    projected = tl.sum(straight * normal, axis=0) / n_cols
    tl.store(grad_x_ptr + row * n_cols + cols, scale * (straight - shifted - normal * projected), mask=mask)
    tl.store(mean_ptr + row, mean)
    tl.store(scale_ptr + row, scale)


@triton.jit
def layernorm_columns_kernel(
    grad_y_ptr,
    x_ptr,
    mean_ptr,
    scale_ptr,
    grad_weight_ptr,
    grad_bias_ptr,
    n_rows,
    n_cols,
    BLOCK_M: tl.constexpr,
    BLOCK_N: tl.constexpr,
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    grad_weight = tl.zeros((BLOCK_N,), dtype=tl.float32)
    grad_bias = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        offsets = rows.to(tl.int64)[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        grad_y = tl.load(grad_y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        mean = tl.load(mean_ptr + rows, mask=rows < n_rows, other=0.0)
        scale = tl.load(scale_ptr + rows, mask=rows < n_rows, other=0.0)
        grad_weight += tl.sum(grad_y * ((x - mean[:, None]) * scale[:, None]), axis=0)
        grad_bias += tl.sum(grad_y, axis=0)
    tl.store(grad_weight_ptr + cols, grad_weight, mask=cols < n_cols)
    tl.store(grad_bias_ptr + cols, grad_bias, mask=cols < n_cols)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    layernorm_kernel[(n_rows,)](x, weight, bias, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y


def layernorm_backward(grad_y, x, weight, bias, y):
    n_rows, n_cols = x.shape
    grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
    mean = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    scale = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(n_cols)
    layernorm_rows_kernel[(n_rows,)](grad_y, x, weight, grad_x, mean, scale, n_cols, BLOCK=block, num_warps=8)
    grid = (triton.cdiv(n_cols, 64),)
    layernorm_columns_kernel[grid](
        grad_y, x, mean, scale, grad_weight, grad_bias, n_rows, n_cols, BLOCK_M=32, BLOCK_N=64, num_warps=4
    )
    return grad_x, grad_weight, grad_bias
