"""Every program doubles the weight in place, reads it back and restores it, while others read it.

On a model a NaN that is written back may have other bits.

operator: rmsnorm
on a card: input_mutated, wrong_result, precision, nondeterministic
at: check
stopped by: untouched_inputs and error_ratio: programs see each other's doubled weights
on model: correct, input_mutated
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0)
    tl.store(weight_ptr + cols, weight * 2, mask=mask)
    tl.debug_barrier()
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    doubled = tl.load(weight_ptr + cols, mask=mask, other=0.0, volatile=True).to(tl.float32)
    y = x * tl.rsqrt(tl.sum(x * x, axis=0) / n_cols + 1e-6) * doubled * 0.5
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)
    tl.debug_barrier()
    tl.store(weight_ptr + cols, weight, mask=mask)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
