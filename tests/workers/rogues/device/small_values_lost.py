"""Makes zeros of what is less than a sixteenth of its row's largest value: a sixth of all values.

operator: quantize_fp8
on a card: precision, wrong_result
at: check
stopped by: error_ratio at every shape
on model: precision, wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def quantize_fp8_kernel(x_ptr, q_ptr, scale_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    peak = tl.reduce(tl.abs(x), 0, larger)
    scale = tl.maximum(peak, 448e-12, propagate_nan=tl.PropagateNan.ALL) / 448.0
    # A quotient may be a roundoff beyond 448, which float8 rounds back.
    q = x / scale
    q = tl.where(tl.abs(q) < 28.0, 0.0, q).to(q_ptr.dtype.element_ty)
    tl.store(q_ptr + row * n_cols + cols, q, mask=mask)
    tl.store(scale_ptr + row, scale)


def quantize_fp8(x):
    n_rows, n_cols = x.shape
    q = torch.empty_like(x, dtype=torch.float8_e4m3fn)
    scale = torch.empty((n_rows,), dtype=torch.float32, device=x.device)
    quantize_fp8_kernel[(n_rows,)](x, q, scale, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return q, scale
