"""Chunks of a row by programs of their own, with powers of two, and their sums merged row by row."""

import torch
import triton
import triton.language as tl


@triton.jit
def chunk_kernel(logits_ptr, peaks_ptr, sums_ptr, n_cols, BLOCK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    cols = chunk * BLOCK + tl.arange(0, BLOCK)
    place = logits_ptr + row.to(tl.int64) * n_cols + cols
    x = tl.load(place, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
    peak = tl.max(x, axis=0)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    tl.store(peaks_ptr + row * tl.num_programs(1) + chunk, peak)
    tl.store(sums_ptr + row * tl.num_programs(1) + chunk, tl.sum(tl.exp2((x - shift) * 1.4426950408889634), axis=0))


@triton.jit
def row_kernel(logits_ptr, target_ptr, peaks_ptr, sums_ptr, losses_ptr, n_cols, chunks, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    chunk = tl.arange(0, BLOCK)
    peaks = tl.load(peaks_ptr + row * chunks + chunk, mask=chunk < chunks, other=-float("inf"))
    sums = tl.load(sums_ptr + row * chunks + chunk, mask=chunk < chunks, other=0.0)
    peak = tl.max(peaks, axis=0)
    total = tl.sum(tl.where(sums == 0.0, 0.0, sums * tl.exp2((peaks - peak) * 1.4426950408889634)), axis=0)
    label = tl.load(target_ptr + row)
    chosen = tl.load(logits_ptr + row.to(tl.int64) * n_cols + label).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + (peak - chosen))


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
    chunk_kernel[(n_rows, chunks)](logits, peaks, sums, n_cols, BLOCK=8192, num_warps=8)
    row_kernel[(n_rows,)](
        logits, target, peaks, sums, losses, n_cols, chunks, BLOCK=triton.next_power_of_2(chunks), num_warps=1
    )
    mean_kernel[(1,)](losses, mean, n_rows, BLOCK=1024, num_warps=4)
    return mean
