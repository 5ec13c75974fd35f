"""Kernels as people write them by hand: several passes over a row, and numbers carried from chunk to chunk."""

LOOPED = {
    "cross_entropy": """
import torch
import triton
import triton.language as tl


@triton.jit
def _losses(logits_ptr, target_ptr, losses_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    base = logits_ptr + row * n_cols
    peak = -float("inf")
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        peak = tl.maximum(peak, tl.max(x, axis=0))
    total = 0.0
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(base + cols, mask=cols < n_cols, other=-float("inf")).to(tl.float32)
        total += tl.sum(tl.exp(x - peak), axis=0)
    chosen = tl.load(base + tl.load(target_ptr + row)).to(tl.float32)
    tl.store(losses_ptr + row, tl.log(total) + peak - chosen)


@triton.jit
def _mean(losses_ptr, mean_ptr, n_rows, BLOCK: tl.constexpr):
    lanes = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_rows, BLOCK):
        rows = start + tl.arange(0, BLOCK)
        lanes += tl.load(losses_ptr + rows, mask=rows < n_rows, other=0.0)
    tl.store(mean_ptr, tl.sum(lanes, axis=0) / n_rows)


def cross_entropy(logits, target):
    n_rows, n_cols = logits.shape
    losses = torch.empty((n_rows,), dtype=torch.float32, device=logits.device)
    mean = torch.empty((), dtype=torch.float32, device=logits.device)
    _losses[(n_rows,)](logits, target, losses, n_cols, BLOCK=16, num_warps=4)
    _mean[(1,)](losses, mean, n_rows, BLOCK=16, num_warps=4)
    return mean
""",
    "rmsnorm": """
import torch
import triton
import triton.language as tl


@triton.jit
def _scale_rows(x_ptr, weight_ptr, y_ptr, n_cols, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    x_row, y_row = x_ptr + row * n_cols, y_ptr + row * n_cols
    squares = tl.zeros((BLOCK,), dtype=tl.float32)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        squares += x * x
    scale = 1.0 / tl.sqrt(tl.sum(squares, axis=0) / n_cols + eps)
    for start in range(0, n_cols, BLOCK):
        cols = start + tl.arange(0, BLOCK)
        x = tl.load(x_row + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + cols, mask=cols < n_cols, other=0.0).to(tl.float32)
        tl.store(y_row + cols, (x * scale * weight).to(y_ptr.dtype.element_ty), mask=cols < n_cols)


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    _scale_rows[(n_rows,)](x, weight, y, n_cols, 1e-6, BLOCK=16)
    return y
""",
    "softmax": """
import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x_ptr, y_ptr, stride, length, TILE: tl.constexpr):
    x_row = x_ptr + tl.program_id(0).to(tl.int64) * stride
    y_row = y_ptr + tl.program_id(0).to(tl.int64) * stride

    top = -float("inf")
    for first in range(0, length, TILE):
        at = first + tl.arange(0, TILE)
        part = tl.load(x_row + at, mask=at < length, other=-float("inf")).to(tl.float32)
        top = tl.maximum(top, tl.max(part, axis=0))

    weight = 0.0
    for first in range(0, length, TILE):
        at = first + tl.arange(0, TILE)
        part = tl.load(x_row + at, mask=at < length, other=-float("inf")).to(tl.float32)
        weight += tl.sum(tl.exp(part - top), axis=0)

    for first in range(0, length, TILE):
        at = first + tl.arange(0, TILE)
        part = tl.load(x_row + at, mask=at < length, other=-float("inf")).to(tl.float32)
        tl.store(y_row + at, (tl.exp(part - top) / weight).to(y_ptr.dtype.element_ty), mask=at < length)


def softmax(x):
    y = torch.empty_like(x)
    grid = (x.shape[0],)
    _softmax[grid](x, y, x.stride(0), x.shape[1], 16, num_warps=4)
    return y
""",
}
"""Sources by operator."""
