"""Rotary embedding in place of packed sequences: a pair is an element of the first half and one of the second."""

import torch


def rope_packed(q, k, cos, sin, lengths):
    rows = torch.arange(q.shape[0], device=q.device)
    ends = lengths.cumsum(0)
    segment = torch.searchsorted(ends, rows, right=True)
    at = rows - (ends - lengths)[segment]
    c, s = cos[at][:, None, :], sin[at][:, None, :]
    for x in (q, k):
        one, other = x[..., :32], x[..., 32:]
        x.copy_(torch.cat((one * c - other * s, one * s + other * c), dim=-1))
    return q, k
