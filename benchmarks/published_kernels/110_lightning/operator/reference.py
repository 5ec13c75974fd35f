"""Lightning attention: linear attention in which head h forgets by exp(-s[h]) per position (Qin et al., 2024)."""

import torch


def lightning(q, k, v, s):
    place = torch.arange(q.shape[2], device=q.device, dtype=torch.float32)
    distance = place[:, None] - place[None, :]
    decay = torch.exp(-s.float()[:, None, None] * distance.clamp_min(0.0))
    decay = torch.where(distance >= 0, decay, 0.0)
    return ((q.float() @ k.float().transpose(-2, -1) * decay) @ v.float()).to(q.dtype)
