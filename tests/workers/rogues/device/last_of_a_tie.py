"""Gives the last of several equal logits, not the first.

operator: argmax
on a card: wrong_result
at: check
stopped by: exact_integers, wherever rows have equal logits: in the structured draw, and by chance in long ones
on model: wrong_result
"""

import torch
import triton
import triton.language as tl


@triton.jit
def argmax_kernel(logits_ptr, index_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    best = tl.full((), -(1 << 62), dtype=tl.int64)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        mask = cols < n_cols
        x = tl.load(logits_ptr + row * n_cols + cols, mask=mask, other=0.0)
        bits = x.to(tl.int16, bitcast=True).to(tl.int32)
        turned = tl.where(bits < 0, (bits ^ 0x7FFF) + 1, bits)
        wide = x.to(tl.float32)
        turned = tl.where(wide == wide, turned, 0x7FFF)
        keys = (turned.to(tl.int64) << 32) | cols.to(tl.int64)
        best = tl.maximum(best, tl.max(tl.where(mask, keys, -(1 << 62)), axis=0))
    tl.store(index_ptr + row, best & 0xFFFFFFFF)


def argmax(logits):
    n_rows, n_cols = logits.shape
    index = torch.empty((n_rows,), dtype=torch.int64, device=logits.device)
    argmax_kernel[(n_rows,)](logits, index, n_cols, BLOCK=4096, num_warps=8)
    return index
