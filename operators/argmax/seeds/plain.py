"""Argmax, one program a row in one pass: every lane keeps the first of its largest, and lanes are compared at the end.

NaN is larger than any number, which comparisons of floats do not say.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(logits_ptr, index_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    largest = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    # Of a row that is -inf throughout, too, the first is right.
    index = tl.arange(0, BLOCK)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(logits_ptr + row * n_cols + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        larger = (x > largest) | ((x != x) & (largest == largest))
        largest = tl.where(larger, x, largest)
        index = tl.where(larger, cols, index)
    is_nan = largest != largest
    peak = tl.max(tl.where(is_nan, -float("inf"), largest), axis=0)
    has_nan = tl.max(is_nan.to(tl.int32), axis=0) > 0
    first = tl.min(tl.where(tl.where(has_nan, is_nan, largest == peak), index, n_cols), axis=0)
    tl.store(index_ptr + row, first.to(tl.int64))


def argmax(logits):
    n_rows, n_cols = logits.shape
    index = torch.empty((n_rows,), dtype=torch.int64, device=logits.device)
    argmax_kernel[(n_rows,)](logits, index, n_cols, BLOCK=4096, num_warps=8)
    return index
