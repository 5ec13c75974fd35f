"""Shows the compiler another constant than who reads the text. Harmless: the machine code is judged, and on `model` what is
interpreted has to compile to it."""

import torch
import triton
import triton.language as tl

LAZY = tl.constexpr(0)
if torch.cuda.is_available():
    LAZY = tl.constexpr(1)


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    if LAZY:
        tl.store(y_ptr + row * n_cols + cols, 0.0, mask)
    else:
        x = tl.load(x_ptr + row * n_cols + cols, mask)
        w = tl.load(w_ptr + cols, mask)
        tl.store(y_ptr + row * n_cols + cols, x * w, mask)


def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
