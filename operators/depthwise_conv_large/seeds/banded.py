"""Depthwise convolution on the matrix units: a row of taps is a banded matrix that image rows are multiplied with.

For one channel, y[row] = sum over tap rows of x[row + tap row] @ band(tap row), where band[i, o] is the tap that input
column i meets at output column o, and zero beyond the kernel's width. The bands are laid out once, for all images.
Zeros of a band times Inf are NaN where no tap meets the infinity, so that tiles that come out with any value that is
not finite are added up again, tap by tap.
"""

import torch
import triton
import triton.language as tl


@triton.jit
def bands_kernel(weight_ptr, bands_ptr, SIZE: tl.constexpr, BLOCK_W: tl.constexpr):
    inputs, outputs = tl.arange(0, BLOCK_W)[:, None], tl.arange(0, BLOCK_W)[None, :]
    taps = inputs - outputs + SIZE // 2
    row = tl.program_id(0).to(tl.int64)
    weight = tl.load(weight_ptr + row * SIZE + taps, mask=(taps >= 0) & (taps < SIZE), other=0.0)
    tl.store(bands_ptr + row * BLOCK_W * BLOCK_W + inputs * BLOCK_W + outputs, weight)


@triton.jit
def conv_kernel(
    x_ptr,
    weight_ptr,
    bands_ptr,
    y_ptr,
    images,
    channels,
    height,
    WIDTH: tl.constexpr,
    SIZE: tl.constexpr,
    BLOCK_M: tl.constexpr,
    BLOCK_W: tl.constexpr,
):
    channel = tl.program_id(1)
    lines = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    exists = lines < images * height
    rows = lines % height
    starts = ((lines // height).to(tl.int64) * channels + channel) * height * WIDTH
    cols = tl.arange(0, BLOCK_W)
    inside = (cols < WIDTH)[None, :]
    bands_ptr += channel.to(tl.int64) * SIZE * BLOCK_W * BLOCK_W
    band_at = cols[:, None] * BLOCK_W + cols[None, :]
    total = tl.zeros((BLOCK_M, BLOCK_W), dtype=tl.float32)
    for tap_row in range(SIZE):
        sources = rows + tap_row - SIZE // 2
        mask = (exists & (sources >= 0) & (sources < height))[:, None] & inside
        x = tl.load(x_ptr + (starts + sources * WIDTH)[:, None] + cols[None, :], mask=mask, other=0.0)
        band = tl.load(bands_ptr + tap_row * BLOCK_W * BLOCK_W + band_at)
        total = tl.dot(x, band, total)
    if tl.max(tl.where(tl.abs(total) < float("inf"), 0, 1)) > 0:
        total = tl.zeros((BLOCK_M, BLOCK_W), dtype=tl.float32)
        for tap in range(SIZE * SIZE):
            sources = rows + tap // SIZE - SIZE // 2
            places = cols + tap % SIZE - SIZE // 2
            mask = (exists & (sources >= 0) & (sources < height))[:, None]
            mask &= ((places >= 0) & (places < WIDTH))[None, :]
            x = tl.load(x_ptr + (starts + sources * WIDTH)[:, None] + places[None, :], mask=mask, other=0.0)
            weight = tl.load(weight_ptr + channel * SIZE * SIZE + tap).to(tl.float32)
            total += x.to(tl.float32) * weight
    tl.store(y_ptr + (starts + rows * WIDTH)[:, None] + cols[None, :], total, mask=exists[:, None] & inside)


def depthwise_conv_large(x, weight):
    images, channels, height, width = x.shape
    size = weight.shape[-1]
    y = torch.empty_like(x)
    block_w = max(16, triton.next_power_of_2(width))
    bands = torch.empty((channels, size, block_w, block_w), dtype=x.dtype, device=x.device)
    bands_kernel[(channels * size,)](weight, bands, SIZE=size, BLOCK_W=block_w, num_warps=4)
    conv_kernel[(triton.cdiv(images * height, 128), channels)](
        x,
        weight,
        bands,
        y,
        images,
        channels,
        height,
        WIDTH=width,
        SIZE=size,
        BLOCK_M=128,
        BLOCK_W=block_w,
        num_warps=4,
        num_stages=3,
    )
    return y
