"""Softmax over the last dimension, shifted by the row's maximum."""

import torch


def softmax(x):
    wide = x.float()
    shifted = torch.exp(wide - wide.amax(dim=-1, keepdim=True))
    return shifted / shifted.sum(dim=-1, keepdim=True)
