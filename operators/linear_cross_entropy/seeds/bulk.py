"""The loss without the logits, by tiles of 128 tokens and 256 entries, moved in bulk where rows are aligned for that.

A tile leaves its largest logit and its sum of exponentials for every token, and one more kernel puts them together.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def leave(
    logits,
    rows,
    entries,
    part,
    target_ptr,
    peaks_ptr,
    totals_ptr,
    chosen_ptr,
    M,
    V,
):
    target = tl.load(target_ptr + rows, mask=rows < M, other=-1)
    is_target = (entries[None, :] == target[:, None]) & (entries < V)[None, :]
    found = tl.sum(is_target.to(tl.int32), axis=1) > 0
    tl.store(chosen_ptr + rows, tl.sum(tl.where(is_target, logits, 0.0), axis=1), mask=found & (rows < M))
    logits = tl.where((entries < V)[None, :], logits, -float("inf"))
    peak = tl.max(logits, axis=1)
    # Where every logit is -inf, there is no maximum to shift by.
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    total = tl.sum(tl.exp(logits - shift[:, None]), axis=1)
    tl.store(peaks_ptr + part * M + rows, peak, mask=rows < M)
    tl.store(totals_ptr + part * M + rows, total, mask=rows < M)


@triton.jit
def corner(tile, tiles_m, tiles_v, GROUP: tl.constexpr):
    first = tile // (GROUP * tiles_v) * GROUP
    height = tl.minimum(tiles_m - first, GROUP)
    inside = tile % (GROUP * tiles_v)
    return first + inside % height, inside // height


@triton.jit
def bulk_kernel(
    x_ptr,
    weight_ptr,
    target_ptr,
    peaks_ptr,
    totals_ptr,
    chosen_ptr,
    M,
    V,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    x_tiles = tl.make_tensor_descriptor(x_ptr, (M, K), (K, 1), (BLOCK_M, BLOCK_K))
    weight_tiles = tl.make_tensor_descriptor(weight_ptr, (V, K), (K, 1), (BLOCK_V, BLOCK_K))
    row, part = corner(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(V, BLOCK_V), GROUP)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    entries = part * BLOCK_V + tl.arange(0, BLOCK_V)
    logits = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        logits = tl.dot(x_tiles.load([row * BLOCK_M, start]), weight_tiles.load([part * BLOCK_V, start]).T, logits)
    leave(logits, rows, entries, part, target_ptr, peaks_ptr, totals_ptr, chosen_ptr, M, V)


@triton.jit
def plain_kernel(
    x_ptr,
    weight_ptr,
    target_ptr,
    peaks_ptr,
    totals_ptr,
    chosen_ptr,
    M,
    V,
    K,
    BLOCK_M: tl.constexpr,
    BLOCK_V: tl.constexpr,
    BLOCK_K: tl.constexpr,
    GROUP: tl.constexpr,
):
    row, part = corner(tl.program_id(0), tl.cdiv(M, BLOCK_M), tl.cdiv(V, BLOCK_V), GROUP)
    rows = row * BLOCK_M + tl.arange(0, BLOCK_M)
    entries = part * BLOCK_V + tl.arange(0, BLOCK_V)
    logits = tl.zeros((BLOCK_M, BLOCK_V), dtype=tl.float32)
    for start in range(0, K, BLOCK_K):
        inner = start + tl.arange(0, BLOCK_K)
        x_mask = (rows < M)[:, None] & (inner < K)[None, :]
        x = tl.load(x_ptr + rows[:, None].to(tl.int64) * K + inner[None, :], mask=x_mask, other=0.0)
        w_mask = (inner < K)[:, None] & (entries < V)[None, :]
        weight = tl.load(weight_ptr + entries[None, :].to(tl.int64) * K + inner[:, None], mask=w_mask, other=0.0)
        logits = tl.dot(x, weight, logits)
    leave(logits, rows, entries, part, target_ptr, peaks_ptr, totals_ptr, chosen_ptr, M, V)


@triton.jit
def loss_kernel(
    peaks_ptr, totals_ptr, chosen_ptr, loss_ptr, M, n_parts, BLOCK_M: tl.constexpr, BLOCK_PARTS: tl.constexpr
):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    peak = tl.full((BLOCK_PARTS, BLOCK_M), -float("inf"), dtype=tl.float32)
    for first in range(0, n_parts, BLOCK_PARTS):
        parts = first + tl.arange(0, BLOCK_PARTS)
        mask = (parts < n_parts)[:, None] & (rows < M)[None, :]
        peak = tl.maximum(peak, tl.load(peaks_ptr + parts[:, None] * M + rows[None, :], mask, -float("inf")))
    peak = tl.max(peak, axis=0)
    shift = tl.where(peak == -float("inf"), 0.0, peak)
    total = tl.zeros((BLOCK_PARTS, BLOCK_M), dtype=tl.float32)
    for first in range(0, n_parts, BLOCK_PARTS):
        parts = first + tl.arange(0, BLOCK_PARTS)
        mask = (parts < n_parts)[:, None] & (rows < M)[None, :]
        part_peak = tl.load(peaks_ptr + parts[:, None] * M + rows[None, :], mask, -float("inf"))
        part_total = tl.load(totals_ptr + parts[:, None] * M + rows[None, :], mask, 0.0)
        total += part_total * tl.exp(part_peak - shift[None, :])
    chosen = tl.load(chosen_ptr + rows, mask=rows < M, other=0.0)
    tl.store(loss_ptr + rows, tl.log(tl.sum(total, axis=0)) + (peak - chosen), mask=rows < M)


def linear_cross_entropy(x, weight, target):
    M, K = x.shape
    V = weight.shape[0]
    n_parts = triton.cdiv(V, 256)
    loss = torch.empty((M,), dtype=torch.float32, device=x.device)
    chosen = torch.empty_like(loss)
    peaks = torch.empty((n_parts, M), dtype=torch.float32, device=x.device)
    totals = torch.empty_like(peaks)
    kernel = bulk_kernel if K % 8 == 0 else plain_kernel
    kernel[(triton.cdiv(M, 128) * n_parts,)](
        x,
        weight,
        target,
        peaks,
        totals,
        chosen,
        M,
        V,
        K,
        BLOCK_M=128,
        BLOCK_V=256,
        BLOCK_K=64,
        GROUP=8,
        num_warps=8,
        num_stages=4,
    )
    loss_kernel[(triton.cdiv(M, 32),)](peaks, totals, chosen, loss, M, n_parts, BLOCK_M=32, BLOCK_PARTS=32, num_warps=4)
    return loss
