"""Row quantisation to FP8 E4M3: every row is divided by its largest magnitude over 448 and rounded.

Micikevicius et al., "FP8 Formats for Deep Learning" (2022), have the format, whose largest value is 448, and leave the
scale to the user; one of the row's maximum is what `per token` quantisation is called in vLLM and torchao. Written from
knowledge: the paper was not at hand. Rows smaller than 448e-12 share the scale 1e-12, so that zeros stay zeros.
No clamp is needed: a quotient is at most a roundoff beyond 448, and rounds back to it.
"""

import torch


def quantize_fp8(x):
    wide = x.float()
    scale = wide.abs().amax(dim=-1, keepdim=True).clamp_min(448e-12) / 448.0
    return (wide / scale).to(torch.float8_e4m3fn), scale.squeeze(-1)
