"""Gated linear attention: `S_t = diag(exp(gate_t)) S_(t-1) + k_t^T v_t`, `y_t = q_t S_t / sqrt(K)`, head by head.

Yang et al., "Gated Linear Attention Transformers with Hardware-Efficient Training" (2024), section 4.1, with gates
for the features of keys alone, given as logarithms, and the scale that the flash-linear-attention library has;
written down from memory of both. By chunks of 16, within which no product of gates leaves float32: exp(16) at most,
as gates are at least -1. States of whole chunks decay to later ones by sums of gates over the chunks between.
"""

import torch

CHUNK = 16


def gated_linear_attention(q, k, v, gate):
    dtype, (batch, heads, length, features) = v.dtype, k.shape
    count = -(-length // CHUNK)
    padding = (0, 0, 0, count * CHUNK - length)
    q, k, v, gate = (
        torch.nn.functional.pad(each.float(), padding).reshape(batch, heads, count, CHUNK, each.shape[-1])
        for each in (q, k, v, gate)
    )
    kept = gate.cumsum(dim=-2)
    whole = kept[..., -1:, :]
    inward = q * features**-0.5 * torch.exp(kept)
    y = (inward @ (k * torch.exp(-kept)).transpose(-2, -1)).tril() @ v
    states = (k * torch.exp(whole - kept)).transpose(-2, -1) @ v
    # From the end of chunk j to the start of chunk i, all gates of the chunks between, feature by feature.
    spans = whole.squeeze(-2).transpose(-2, -1).unsqueeze(-1).expand(-1, -1, -1, -1, count).tril(-1)
    across = torch.exp(spans.cumsum(dim=-2)).tril()
    after = across @ states.transpose(2, 3)
    before = torch.nn.functional.pad(after, (0, 0, 1, 0))[..., :-1, :]
    y = y + inward @ before.transpose(2, 3)
    return y.reshape(batch, heads, count * CHUNK, -1)[:, :, :length].to(dtype)
