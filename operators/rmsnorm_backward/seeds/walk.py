"""RMSNorm and its gradients in one pass each: programs walk over rows and add the weight's gradient up as they go.

With r = rsqrt(mean(x^2) + eps) and g = grad_y weight: grad_x = r g - x r^3 mean(g x), grad_weight = sum of grad_y x r.
Every program of the backward kernel keeps a row of sums in registers while the next row's values are on their way,
and leaves it to one more kernel that adds the rows of all programs.
"""

import torch
import triton
import triton.language as tl

PROGRAMS = 264


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
    sums = tl.zeros((BLOCK,), dtype=tl.float32)
    for row in tl.range(program, n_rows, tl.num_programs(0), num_stages=STAGES):
        x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        grad_y = tl.load(grad_y_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
        scale = tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6)
        normal = x * scale
        straight = grad_y * weight.to(tl.float32)
        projected = tl.sum(straight * normal, axis=0) / n_cols
        tl.store(grad_x_ptr + row * n_cols + cols, scale * (straight - normal * projected), mask=mask)
        sums += grad_y * normal
    tl.store(sums_ptr + program * n_cols + cols, sums, mask=mask)


@triton.jit
def columns_kernel(sums_ptr, grad_weight_ptr, n_sums, n_cols, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    cols = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, n_sums, BLOCK_M):
        rows = start + tl.arange(0, BLOCK_M)
        mask = (rows < n_sums)[:, None] & (cols < n_cols)[None, :]
        total += tl.load(sums_ptr + rows[:, None] * n_cols + cols[None, :], mask=mask, other=0.0)
    tl.store(grad_weight_ptr + cols, tl.sum(total, axis=0), mask=cols < n_cols)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y


def rmsnorm_backward(grad_y, x, weight, y):
    n_rows, n_cols = x.shape
    grad_x, grad_weight = torch.empty_like(x), torch.empty_like(weight)
    n_sums = min(n_rows, PROGRAMS)
    sums = torch.empty((n_sums, n_cols), dtype=torch.float32, device=x.device)
    block = triton.next_power_of_2(n_cols)
    stages = 3 if block <= 16384 else 1
    backward_kernel[(n_sums,)](
        grad_y, x, weight, grad_x, sums, n_rows, n_cols, BLOCK=block, STAGES=stages, num_warps=16
    )
    grid = (triton.cdiv(n_cols, 32),)
    columns_kernel[grid](sums, grad_weight, n_sums, n_cols, BLOCK_M=64, BLOCK_N=32, num_warps=4)
    return grad_x, grad_weight
