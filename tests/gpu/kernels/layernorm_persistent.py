"""Weights read once by programs that come round for row after row.

operator: layernorm
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_rows, n_cols, block: tl.constexpr):
    cols = tl.arange(0, block)
    mask = cols < n_cols
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    bias = tl.load(bias_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    for row in tl.range(tl.program_id(0), n_rows, tl.num_programs(0), num_stages=2):
        place = row.to(tl.int64) * n_cols + cols
        x = tl.load(x_ptr + place, mask=mask, other=0.0).to(tl.float32)
        mean = tl.sum(x, axis=0) / n_cols
        centred = tl.where(mask, x - mean, 0.0)
        scale = tl.rsqrt(tl.sum(centred * centred, axis=0) / n_cols + 1e-5)
        tl.store(y_ptr + place, centred * scale * weight + bias, mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    programs = min(n_rows, 4 * torch.cuda.get_device_properties(x.device).multi_processor_count)
    block = triton.next_power_of_2(n_cols)
    kernel[(programs,)](x, weight, bias, y, n_rows, n_cols, block=block, num_warps=8)
    return y
