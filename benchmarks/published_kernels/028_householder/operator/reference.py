"""Products of generalised Householder factors over the chunks of a split, from the last chunk to the first.

A chunk of `w1` and `w2` turns the product `h` into `h + (w1' - h w1') w2`; `suffix` is the product behind a chunk,
`whole` that of a split, and `k_new` the keys of a chunk less `k h'`.
"""

import torch

SPLIT = 32
CHUNK = 16


def householder(k, w1, w2):
    batch, length, heads, width = k.shape
    chunks = SPLIT // CHUNK

    def cut(x):
        return x.float().view(batch, length // SPLIT, chunks, CHUNK, heads, width).transpose(3, 4)

    keys, left, right = cut(k), cut(w1), cut(w2)
    h = torch.zeros(batch, length // SPLIT, heads, width, width, device=k.device)
    new, suffix = [], []
    for chunk in reversed(range(chunks)):
        suffix.insert(0, h)
        new.insert(0, keys[:, :, chunk] - keys[:, :, chunk] @ h.transpose(-1, -2))
        columns = left[:, :, chunk].transpose(-1, -2)
        h = h + (columns - h @ columns) @ right[:, :, chunk]
    new = torch.stack(new, 2).transpose(3, 4).reshape(k.shape)
    suffix = torch.stack(suffix, 2).reshape(-1, heads, width, width)
    return new.to(k.dtype), suffix.to(w1.dtype), h.reshape(-1, heads, width, width).to(w1.dtype)
