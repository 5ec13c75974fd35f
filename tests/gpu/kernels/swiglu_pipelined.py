"""A row a program, its blocks in a loop of four stages.

operator: swiglu
"""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(gate_ptr, up_ptr, y_ptr, n_cols, block: tl.constexpr):
    row = tl.program_id(0).to(tl.int64) * n_cols
    for start in tl.range(0, n_cols, block, num_stages=4):
        cols = start + tl.arange(0, block)
        mask = cols < n_cols
        gate = tl.load(gate_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        up = tl.load(up_ptr + row + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(y_ptr + row + cols, gate * tl.sigmoid(gate) * up, mask=mask)


def swiglu(gate, up):
    n_rows, n_cols = gate.shape
    y = torch.empty_like(gate)
    kernel[(n_rows,)](gate, up, y, n_cols, block=2048, num_warps=8)
    return y
