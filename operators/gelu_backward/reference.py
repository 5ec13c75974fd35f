"""GELU by its tanh approximation: Hendrycks and Gimpel, "Gaussian Error Linear Units" (2016), section 2."""

import math

import torch


def gelu(x):
    wide = x.float()
    inner = math.sqrt(2.0 / math.pi) * (wide + 0.044715 * wide.pow(3))
    return (0.5 * wide * (1.0 + torch.tanh(inner))).to(x.dtype)
