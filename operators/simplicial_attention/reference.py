"""2-simplicial attention: queries weigh pairs of positions by `sum over d of q k1 k2 / sqrt(D)`, both of them near.

Roy et al., "Fast and Simplex: 2-Simplicial Attention in Triton" (2025): softmax over all pairs of a position less
than `window1` and one less than `window2` before the query, neither of them after it; the result is the weighted mean
of `v1 * v2`. The paper was not at hand; the definition is as its abstract, summaries and public descriptions state
it.
"""

import torch


def simplicial_attention(q, k1, v1, k2, v2, window1, window2):
    batch, heads, length, size = q.shape
    rows = length * window2
    front = (0, 0, window2 - 1, 0)
    near_k, near_v = (
        torch.nn.functional.pad(each.float(), front).unfold(2, window2, 1).transpose(-2, -1) for each in (k2, v2)
    )
    mixed = (q.float().unsqueeze(3) * near_k).reshape(batch, heads, rows, size)
    scores = (mixed @ k1.float().transpose(-2, -1) * size**-0.5).reshape(batch, heads, length, window2, length)
    place = torch.arange(length, device=q.device)
    behind = place[:, None] - place[None, :]
    first = (behind >= 0) & (behind < window1)
    second = place[:, None] + torch.arange(window2, device=q.device)[None, :] >= window2 - 1
    scores = scores.masked_fill(~(first[:, None, :] & second[:, :, None]), float("-inf"))
    weights = torch.softmax(scores.flatten(3), dim=-1).reshape(batch, heads, rows, length)
    values = (weights @ v1.float()).reshape(batch, heads, length, window2, size)
    return (values * near_v).sum(dim=3).to(q.dtype)
