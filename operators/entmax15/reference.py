"""Entmax with alpha 1.5 over the last dimension, by sorting: `y = max(x / 2 - t, 0)^2`, rows summing to one.

Peters, Niculae and Martins, "Sparse Sequence-to-Sequence Models" (2019), algorithm 2; written down from memory of it.
Of the k largest elements of `x / 2` the threshold would be their mean less `sqrt((1 - k variance) / k)`; k is the
number of elements that are not below their own threshold. Rows are shifted by their maximum.
"""

import torch


def entmax15(x):
    wide = x.float()
    half = (wide - wide.amax(dim=-1, keepdim=True)) / 2
    ranked = half.sort(dim=-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, device=x.device).float()
    mean = ranked.cumsum(dim=-1) / count
    spread = ranked.pow(2).cumsum(dim=-1) - count * mean.pow(2)
    thresholds = mean - ((1.0 - spread) / count).clamp(min=0.0).sqrt()
    support = (thresholds <= ranked).sum(dim=-1, keepdim=True)
    threshold = thresholds.gather(-1, (support - 1).clamp(min=0))
    return (half - threshold).clamp(min=0.0).pow(2).to(x.dtype)
