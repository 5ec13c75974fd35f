"""Logarithm of softmax over the last dimension, from shifted values."""

import torch


def log_softmax(x):
    wide = x.float()
    shifted = wide - wide.amax(dim=-1, keepdim=True)
    return (shifted - torch.log(torch.exp(shifted).sum(dim=-1, keepdim=True))).to(x.dtype)
