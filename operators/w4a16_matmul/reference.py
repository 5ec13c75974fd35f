"""Matrix product with weights of 4 bits: Frantar et al., "GPTQ" (2022), with groups of 128 and symmetric.

A weight is `(code - 8) * scale`, with one scale for 128 weights of a column. Eight codes are packed along the features
into an int32, the first in the lowest bits, as AutoGPTQ stores `qweight`; the paper leaves packing open, and this is
written from knowledge of such checkpoints. Weights are rounded to bfloat16 before the product, as kernels do for the
matrix units; keeping them exact is allowed.
"""

import torch


def w4a16_matmul(x, qweight, scales):
    shifts = torch.arange(0, 32, 4, dtype=torch.int32, device=qweight.device)
    codes = (qweight.unsqueeze(2) >> shifts.view(1, 1, 8, 1)) & 15
    weight = (codes - 8).float().flatten(1, 2) * scales.float().unsqueeze(1)
    return torch.matmul(x.flatten(1), weight.to(x.dtype).flatten(0, 1))
