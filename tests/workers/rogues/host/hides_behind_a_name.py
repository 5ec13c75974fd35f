"""Gives two functions one name, so that Triton's compiler takes one for the other. Harmless: the machine code is judged, and on
`model` functions of one name are refused."""

import torch
import triton
import triton.language as tl


@triton.jit
def choose(x):
    return x < 0


first = choose


@triton.jit
def choose(x):
    return x >= 0


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    if first(row) | choose(row):
        x = tl.load(x_ptr + row * n_cols + cols, mask)
        w = tl.load(w_ptr + cols, mask)
        tl.store(y_ptr + row * n_cols + cols, x * w, mask)
    else:
        tl.store(y_ptr + row * n_cols + cols, 0.0, mask)


def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
