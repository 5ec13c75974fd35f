"""Causal linear attention, every head with a decay: `y_t = sum over s <= t of exp(-slope (t - s)) (q_t k_s) v_s`.

Qin et al., "Lightning Attention-2" (2024), equation 4 with lambda = exp(-slope), without scale and without a
normalizer; written down from memory of it. By chunks, as it is meant to be computed: scores within a chunk of 64, and
one state of keys times values that every chunk hands to all later ones.
"""

import torch

CHUNK = 64


def lightning_attention(q, k, v, slope):
    dtype, (batch, heads, length, size) = q.dtype, q.shape
    count = -(-length // CHUNK)
    padding = (0, 0, 0, count * CHUNK - length)
    q, k, v = (
        torch.nn.functional.pad(each.float(), padding).reshape(batch, heads, count, CHUNK, size) for each in (q, k, v)
    )
    rate = slope.reshape(heads, 1, 1)
    place = torch.arange(CHUNK, device=slope.device)
    distance = place[:, None] - place[None, :]
    within = torch.exp(-rate * distance.clamp(min=0)).masked_fill(distance < 0, 0.0)
    y = (q @ k.transpose(-2, -1) * within.unsqueeze(1)) @ v
    to_end = torch.exp(-rate * (CHUNK - 1 - place)[:, None]).unsqueeze(1)
    states = (k * to_end).transpose(-2, -1) @ v
    chunk = torch.arange(count, device=slope.device)
    gap = chunk[:, None] - chunk[None, :] - 1
    across = torch.exp(-rate * CHUNK * gap.clamp(min=0)).masked_fill(gap < 0, 0.0)
    carried = (across @ states.flatten(3)).reshape(states.shape)
    from_start = torch.exp(-rate * (place + 1)[:, None]).unsqueeze(1)
    y = y + (q * from_start) @ carried
    return y.reshape(batch, heads, count * CHUNK, size)[:, :, :length].to(dtype)
