"""LayerNorm and its gradients in one pass each: programs walk over rows and add what columns need up as they go.

With c = x - mean, r = rsqrt(mean(c^2) + eps), h = c r and g = grad_y weight: grad_x = r (g - mean(g) - h mean(g h)),
grad_weight = sum of grad_y h, grad_bias = sum of grad_y. Every program of the backward kernel keeps two rows of sums in
registers while the next row's values are on their way, and leaves them to one more kernel that adds those of all.
"""

import torch
import triton
import triton.language as tl

PROGRAMS = 264


@triton.jit
def layernorm_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0)
    centred = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
    variance = tl.sum(centred * centred, axis=0) / n_cols
    tl.store(y_ptr + row * n_cols + cols, centred * tl.rsqrt(variance + 1e-5) * weight + bias, mask=mask)


@triton.jit
def backward_kernel(
    grad_y_ptr,
    x_ptr,
    weight_ptr,
    grad_x_ptr,
    sums_ptr,
    n_rows,
    n_cols,
    BLOCK: tl.constexpr,
    STAGES: tl.constexpr,
):
    program = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    weight_sums = tl.zeros((BLOCK,), dtype=tl.float32)
    bias_sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in tl.range(program, n_rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        grad_y = tl.load(grad_y_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        centred = tl.where(mask, x - tl.sum(x, axis=0) / n_cols, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + 1e-5)
        normal = centred * scale
        straight = grad_y * weight
        shifted = tl.sum(straight, axis=0) / n_cols
        projected = tl.sum(straight * normal, axis=0) / n_cols
        tl.store(grad_x_ptr + row * n_cols + cols, scale * (straight - shifted - normal * projected), mask=mask)
        weight_sums += grad_y * normal
        bias_sums += grad_y
    tl.store(sums_ptr + program * n_cols + cols, weight_sums, mask=mask)
    tl.store(sums_ptr + (tl.num_programs(0) + program) * n_cols + cols, bias_sums, mask=mask)


@triton.jit
def columns_kernel(
    sums_ptr, grad_weight_ptr, grad_bias_ptr, n_sums, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr
):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    weight_total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    bias_total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_sums, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < n_sums)[:, None] & (cols < n_cols)[None, :]
        sums = sums_ptr + rows[:, None] * n_cols + cols[None, :]
        weight_total += tl.load(sums, mask=mask, other=0.0)
        bias_total += tl.load(sums + n_sums * n_cols, mask=mask, other=0.0)
    tl.store(grad_weight_ptr + cols, tl.sum(weight_total, axis=0), mask=cols < n_cols)
    tl.store(grad_bias_ptr + cols, tl.sum(bias_total, axis=0), mask=cols < n_cols)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    layernorm_kernel[(n_rows,)](x, weight, bias, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y


def layernorm_backward(grad_y, x, weight, bias, y):
    n_rows, n_cols = x.shape
    grad_x, grad_weight, grad_bias = torch.empty_like(x), torch.empty_like(weight), torch.empty_like(bias)
    n_sums = min(n_rows, PROGRAMS)
    sums = torch.empty((2, n_sums, n_cols), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(n_cols)
    stages = 3 if block <= 16384 else 1
    backward_kernel[(n_sums,)](
        grad_y, x, weight, grad_x, sums, n_rows, n_cols, BLOCK=block, STAGES=stages, num_warps=16, maxnreg=64
    )
    grid = (triton.cdiv(n_cols, 32),)
    columns_kernel[grid](sums, grad_weight, grad_bias, n_sums, n_cols, BLOCK_M=64, BLOCK_N=32, num_warps=4)
    return grad_x, grad_weight, grad_bias
