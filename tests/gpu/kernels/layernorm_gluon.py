"""Written in Gluon, configurations from triton.autotune; layouts follow the number of warps.

operator: layernorm
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl


@triton.autotune(
    configs=[triton.Config({"vector": 2}, num_warps=4), triton.Config({"vector": 8}, num_warps=8)], key=["n_cols"]
)
@gluon.jit
def row_kernel(x_ptr, weight_ptr, bias_ptr, y_ptr, n_cols, block: gl.constexpr, vector: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([vector], [32], [gl.num_warps()], [0])
    begin = gl.program_id(0).to(gl.int64) * n_cols
    cols = gl.arange(0, block, layout)
    mask = cols < n_cols
    x = gl.load(x_ptr + begin + cols, mask=mask, other=0.0).to(gl.float32)
    mean = gl.sum(x, 0) / n_cols
    centred = gl.where(mask, x - mean, 0.0)
    scale = gl.rsqrt(gl.sum(centred * centred, 0) / n_cols + 1e-5)
    weight = gl.load(weight_ptr + cols, mask=mask, other=0.0).to(gl.float32)
    bias = gl.load(bias_ptr + cols, mask=mask, other=0.0).to(gl.float32)
    gl.store(y_ptr + begin + cols, (centred * scale * weight + bias).to(gl.bfloat16), mask=mask)


def layernorm(x, weight, bias):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    row_kernel[(n_rows,)](x, weight, bias, y, n_cols, block=max(triton.next_power_of_2(n_cols), 2048))
    return y
