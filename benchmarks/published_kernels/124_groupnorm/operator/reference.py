"""Group normalisation of 64 channels in 8 groups."""

import torch.nn.functional as F


def groupnorm(x, weight, bias):
    return F.group_norm(x, 8, weight, bias, 1e-5)
