"""Chunks of a row by programs of their own, for few rows that are long; then one program a row for its chunks.

Logit and index are one integer: the logit's bits, turned so that they grow with it, above the index counted from the
end. The largest is that of the first index among the largest logits.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_kernel(logits_ptr, keys_ptr, n_cols, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    cols = chunk * BLOCK + tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(logits_ptr + row.to(tl.int64) * n_cols + cols, mask=mask, other=-float("inf")).to(tl.float32)
    bits = x.to(tl.int32, bitcast=True)
    # Both zeros are equal, and NaN is larger than any number, whatever its sign.
    turned = tl.where(bits < 0, (bits ^ 0x7FFFFFFF), bits)
    turned = tl.where(x == x, turned, 0x7FFFFFFF)
    # What is beyond the row is below 0 when it is counted from the end, and so below an infinity of the row's.
    keys = turned.to(tl.int64) * 4294967296 + (n_cols - 1 - cols)
    tl.store(keys_ptr + row * tl.num_programs(1) + chunk, tl.max(keys, axis=0))


@triton.jit
def row_kernel(keys_ptr, index_ptr, n_cols, chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    chunk = tl.arange(0, BLOCK)
    keys = tl.load(keys_ptr + row * chunks + chunk, mask=chunk < chunks, other=-(1 << 63))
    tl.store(index_ptr + row, n_cols - 1 - (tl.max(keys, axis=0) & 0xFFFFFFFF))


def argmax(logits):
    n_rows, n_cols = logits.shape
    chunks = triton.cdiv(n_cols, 8192)
    keys = torch.empty((n_rows, chunks), dtype=torch.int64, device=logits.device)
    index = torch.empty((n_rows,), dtype=torch.int64, device=logits.device)
    chunk_kernel[(n_rows, chunks)](logits, keys, n_cols, BLOCK=8192, num_warps=8)
    row_kernel[(n_rows,)](keys, index, n_cols, chunks, BLOCK=triton.next_power_of_2(chunks), num_warps=1)
    return index
