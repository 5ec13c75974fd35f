"""The gated activation of SwiGLU: Shazeer, "GLU Variants Improve Transformer" (2020), equation 6, matmuls left out."""

import torch


def swiglu(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)
