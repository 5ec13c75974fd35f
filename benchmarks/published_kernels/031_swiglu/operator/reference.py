"""The gated activation of SwiGLU without its matrix products."""

import torch


def swiglu(gate, up):
    wide = gate.float()
    return (wide * torch.sigmoid(wide) * up.float()).to(gate.dtype)
