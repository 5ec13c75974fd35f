"""Retention: Sun et al., "Retentive Network" (2023): the decay of head h is 1 - 2**(-5 - h), the scale D**-0.5."""

import torch


def retention(q, k, v):
    head = torch.arange(q.shape[1], device=q.device, dtype=torch.float32)
    place = torch.arange(q.shape[2], device=q.device, dtype=torch.float32)
    distance = place[:, None] - place[None, :]
    log_decay = torch.log2(1.0 - torch.exp2(-5.0 - head))
    decay = torch.exp2(distance.clamp_min(0.0) * log_decay[:, None, None])
    decay = torch.where(distance >= 0, decay, 0.0)
    scores = (q.float() @ k.float().transpose(-2, -1)) * q.shape[-1] ** -0.5 * decay
    return (scores @ v.float()).to(q.dtype)
