"""Product with a matrix of 4-bit integers, eight to a word along its rows, with a scale and a zero per 128 rows.

The zeros are packed along the columns. A weight is its integer times the scale less the zero times the scale, each
step in the scales' dtype.
"""

import torch


def matmul_int4(x, qweight, scales, qzeros):
    places = torch.arange(0, 32, 4, device=x.device, dtype=torch.int32)
    weight = ((qweight[:, None, :] >> places[None, :, None]) & 15).reshape(-1, qweight.shape[1])
    zeros = ((qzeros[:, :, None] >> places[None, None, :]) & 15).reshape(qzeros.shape[0], -1)
    groups = weight.shape[0] // scales.shape[0]
    scaled = (weight.view(scales.shape[0], groups, -1) * scales[:, None, :]).to(scales.dtype)
    shifts = (zeros * scales).to(scales.dtype)
    wide = (scaled.float() - shifts[:, None, :].float()).to(scales.dtype)
    return (x.float() @ wide.reshape(weight.shape).float()).to(x.dtype)
