"""Depthwise convolution, one program some pixels of one channel of one image, a row of taps at a time."""

import torch
import triton
import triton.language as tl


@triton.jit
def conv_kernel(x_ptr, weight_ptr, y_ptr, channels, height, width, size, BLOCK_P: tl.constexpr, BLOCK_K: tl.constexpr):
    plane = tl.program_id(1)
    x_ptr += plane.to(tl.int64) * height * width
    y_ptr += plane.to(tl.int64) * height * width
    weight_ptr += (plane % channels) * size * size
    pixels = tl.program_id(0) * BLOCK_P + tl.arange(0, BLOCK_P)
    taps = tl.arange(0, BLOCK_K)
    rows, cols = pixels // width, (pixels % width)[:, None] + taps[None, :] - size // 2
    in_row = (pixels < height * width)[:, None] & (cols >= 0) & (cols < width) & (taps < size)[None, :]
    total = tl.zeros((BLOCK_P,), dtype=tl.float32)
    for tap_row in range(size):
        sources = rows + tap_row - size // 2
        mask = in_row & ((sources >= 0) & (sources < height))[:, None]
        x = tl.load(x_ptr + sources[:, None] * width + cols, mask=mask, other=0.0).to(tl.float32)
        weight = tl.load(weight_ptr + tap_row * size + taps, mask=taps < size, other=0.0).to(tl.float32)
        total += tl.sum(x * weight[None, :], axis=1)
    tl.store(y_ptr + pixels, total, mask=pixels < height * width)


def depthwise_conv_large(x, weight):
    batch, channels, height, width = x.shape
    size = weight.shape[-1]
    y = torch.empty_like(x)
    grid = (triton.cdiv(height * width, 128), batch * channels)
    block_k = triton.next_power_of_2(size)
    conv_kernel[grid](x, weight, y, channels, height, width, size, BLOCK_P=128, BLOCK_K=block_k, num_warps=4)
    return y
