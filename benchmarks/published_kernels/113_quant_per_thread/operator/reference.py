"""Int8 quantisation of queries and keys in groups as the threads of a tensor core hold them.

Of 32 queries every eighth shares a scale, of 64 keys pairs of every eighth pair; rounding is away from zero at halves.
"""

import torch


def quant_per_thread(q, k):
    return *quantised(q, (4, 8, 1)), *quantised(k, (8, 4, 2))


def quantised(x, groups):
    batch, heads, length, features = x.shape
    rows, threads, pair = groups
    wide = x.float().reshape(batch, heads, length // (rows * threads * pair), rows, threads, pair, features)
    scale = wide.abs().amax(dim=(3, 5, 6), keepdim=True) / 127.0 + 0.0000001
    scaled = wide / scale
    rounded = (scaled + torch.where(scaled >= 0, 0.5, -0.5)).to(torch.int8)
    return rounded.reshape(x.shape), scale.reshape(batch, heads, -1)
