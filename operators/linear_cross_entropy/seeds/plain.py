"""The loss without the logits: programs take parts of the vocabulary, and one more kernel puts the parts together.

A part leaves its largest logit and its sum of exponentials behind for every token.
"""

import torch
import triton
import triton.language as tl

PARTS = 16


@triton.jit
def part_kernel(
    x_ptr,
    weight_ptr,
    target_ptr,
    peaks_ptr,
    totals_ptr,
    chosen_ptr,
    M,
    V,
    K,
    part_size,
    BLOCK_M: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
):
    rows = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    part = tl.program_id(1)
    target = tl.load(target_ptr + rows, mask=rows < M, other=-1)
    peak = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    end = tl.minimum((part + 1) * part_size, V)
    for first in range(0, part_size, BLOCK_V):
        entries = part * part_size + first + tl.arange(0, BLOCK_V)
        logits = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
        for start in range(0, K, BLOCK_K):
            inner = start + tl.arange(0, BLOCK_K)
            x_mask = (rows[:, None] < M) & (inner[None, :] < K)
            w_mask = (inner[:, None] < K) & (entries[None, :] < end)
            x = tl.load(x_ptr + rows[:, None] * K + inner[None, :], mask=x_mask, other=0.0)
            w_ptr = weight_ptr + entries[None, :].to(tl.int64) * K + inner[:, None]
            logits = tl.dot(x, tl.load(w_ptr, mask=w_mask, other=0.0), logits)
        is_target = (entries[None, :] == target[:, None]) & (entries[None, :] < end)
        found = tl.sum(is_target.to(tl.int32), axis=1) > 0
        tl.store(chosen_ptr + rows, tl.sum(tl.where(is_target, logits, 0.0), axis=1), mask=found & (rows < M))
        logits = tl.where(entries[None, :] < end, logits, -float("inf"))
        new_peak = tl.maximum(peak, tl.max(logits, axis=1))
        # While every logit so far is -inf, there is no maximum to shift by.
        shift = tl.where(new_peak == -float("inf"), 0.0, new_peak)
        total = total * tl.exp(peak - shift) + tl.sum(tl.exp(logits - shift[:, None]), axis=1)
        peak = new_peak
    tl.store(peaks_ptr + part * M + rows, peak, mask=rows < M)
    tl.store(totals_ptr + part * M + rows, total, mask=rows < M)


@triton.jit
def loss_kernel(peaks_ptr, totals_ptr, chosen_ptr, loss_ptr, M, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    rows = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    peak = tl.full((BLOCK,), -float("inf"), dtype=tl.float32)
    for part in range(PARTS):
        peak = tl.maximum(peak, tl.load(peaks_ptr + part * M + rows, mask=rows < M, other=0.0))
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for part in range(PARTS):
        part_peak = tl.load(peaks_ptr + part * M + rows, mask=rows < M, other=0.0)
        part_total = tl.load(totals_ptr + part * M + rows, mask=rows < M, other=0.0)
        shift = tl.where(peak == -float("inf"), 0.0, peak)
        total += part_total * tl.exp(part_peak - shift)
    chosen = tl.load(chosen_ptr + rows, mask=rows < M, other=0.0)
    tl.store(loss_ptr + rows, tl.log(total) + (peak - chosen), mask=rows < M)


def linear_cross_entropy(x, weight, target):
    M, K = x.shape
    V = weight.shape[0]
    loss = torch.empty((M,), dtype=torch.float32, device=x.device)
    chosen = torch.empty_like(loss)
    peaks = torch.empty((PARTS, M), dtype=torch.float32, device=x.device)
    totals = torch.empty_like(peaks)
    part_kernel[(triton.cdiv(M, 64), PARTS)](
        x,
        weight,
        target,
        peaks,
        totals,
        chosen,
        M,
        V,
        K,
        triton.cdiv(V, PARTS),
        BLOCK_M=64,
        BLOCK_V=128,
        BLOCK_K=64,
        num_warps=4,
        num_stages=3,
    )
    loss_kernel[(triton.cdiv(M, 128),)](peaks, totals, chosen, loss, M, PARTS=PARTS, BLOCK=128, num_warps=4)
    return loss
