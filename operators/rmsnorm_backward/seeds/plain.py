"""RMSNorm and its gradients, one program a row, the row in one block; the weight's by columns, without atomics.

With r = rsqrt(mean(x^2) + eps) and g = grad_y weight: grad_x = r g - x r^3 mean(g x), grad_weight = sum of grad_y x r.
The first backward kernel keeps r of every row for the second, which sums down 64 columns at a time.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x * tl.rsqrt(mean_square + 1e-6) * weight
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)


@triton.jit
def rmsnorm_rows_kernel(grad_y_ptr, x_ptr, weight_ptr, grad_x_ptr, scale_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    grad_y = tl.load(grad_y_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6)
    straight = grad_y * weight
    projected = tl.sum(straight * (x * scale), axis=0) / n_cols
    grad_x = scale * (straight - x * scale * projected)
    tl.store(grad_x_ptr + row * n_cols + cols, grad_x, mask=mask)
    tl.store(scale_ptr + row, scale)


@triton.jit
def rmsnorm_columns_kernel(
    grad_y_ptr, x_ptr, scale_ptr, grad_weight_ptr, n_rows, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_N,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < n_rows)[:, None] & (cols < n_cols)[None, :]
        offsets = rows.to(tl.int64)[:, None] * n_cols + cols[None, :]
        x = tl.load(x_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        grad_y = tl.load(grad_y_ptr + offsets, mask=mask, other=0.0).to(tl.float32)
        scale = tl.load(scale_ptr + rows, mask=rows < n_rows, other=0.0)
        total += tl.sum(grad_y * x * scale[:, None], axis=0)
    tl.store(grad_weight_ptr + cols, total, mask=cols < n_cols)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y


def rmsnorm_backward(grad_y, x, weight, y):
    n_rows, n_cols = x.shape
    grad_x, grad_weight = torch.empty_like(x), torch.empty_like(weight)
    scale = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(n_cols)
    rmsnorm_rows_kernel[(n_rows,)](grad_y, x, weight, grad_x, scale, n_cols, BLOCK=block, num_warps=8)
    grid = (triton.cdiv(n_cols, 64),)
    rmsnorm_columns_kernel[grid](grad_y, x, scale, grad_weight, n_rows, n_cols, BLOCK_M=32, BLOCK_N=64, num_warps=4)
    return grad_x, grad_weight
