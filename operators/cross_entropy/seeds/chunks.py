"""Chunks of a row by programs of their own, with powers of two; then the sums of 32 rows merged by one program."""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_kernel(logits_ptr, peaks_ptr, sums_ptr, n_cols, BLOCK: tl.constexpr):
    chunk, row = tl.program_id(0), tl.program_id(1)
    cols = chunk * BLOCK + tl.arange(0, BLOCK)
    place = logits_ptr + row.to(tl.int64) * n_cols + cols
    x = tl.load(place, mask=cols < n_cols, other=-float("inf"), eviction_policy="evict_first").to(tl.float32)
    x *= 1.4426950408889634
    peak = tl.max(x, axis=0)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    tl.store(peaks_ptr + row * tl.num_programs(0) + chunk, peak)
    tl.store(sums_ptr + row * tl.num_programs(0) + chunk, tl.sum(tl.exp2(x - shift), axis=0))


@triton.jit
def rows_kernel(
    logits_ptr,
    target_ptr,
    peaks_ptr,
    sums_ptr,
    losses_ptr,
    n_rows,
    n_cols,
    chunks,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
):
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    chunk = tl.arange(0, BLOCK)
    inside = rows < n_rows
    mask = inside[:, None] & (chunk[None, :] < chunks)
    place = rows[:, None] * chunks + chunk[None, :]
    peaks = tl.load(peaks_ptr + place, mask=mask, other=-float("inf"))
    sums = tl.load(sums_ptr + place, mask=mask, other=0.0)
    peak = tl.max(peaks, axis=1)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    total = tl.sum(sums * tl.exp2(peaks - shift[:, None]), axis=1)
    label = tl.load(target_ptr + rows, mask=inside, other=0)
    chosen = tl.load(logits_ptr + rows.to(tl.int64) * n_cols + label, mask=inside, other=0.0).to(tl.float32)
    tl.store(losses_ptr + rows, tl.log(total) + (peak * 0.6931471805599453 - chosen), mask=inside)


@triton.jit
def mean_kernel(losses_ptr, mean_ptr, n_rows, BLOCK: tl.constexpr):
    partial = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        partial += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(mean_ptr, tl.sum(partial, axis=0) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    chunks = triton.cdiv(n_cols, 8192)
    peaks = torch.empty((n_rows, chunks), dtype=torch.float32, device=logits.device)
    sums = torch.empty((n_rows, chunks), dtype=torch.float32, device=logits.device)
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    block = triton.next_power_of_2(chunks)
    chunk_kernel[(chunks, n_rows)](logits, peaks, sums, n_cols, BLOCK=8192, num_warps=8)
    rows_kernel[(triton.cdiv(n_rows, 32),)](
        logits, target, peaks, sums, losses, n_rows, n_cols, chunks, ROWS=32, BLOCK=block, num_warps=8
    )
    mean_kernel[(1,)](losses, mean, n_rows, BLOCK=4096, num_warps=8)
    return mean
