"""What operators of the catalogue compute, written in another way than their references: step by step."""

import torch
from torch.nn import functional


def entmax15(x):
    """By bisection: the threshold at which a row sums to one."""
    low, high = x.amax(-1, keepdim=True) / 2 - 1, x.amax(-1, keepdim=True) / 2
    for _ in range(60):
        middle = (low + high) / 2
        excess = (x / 2 - middle).clamp(min=0).square().sum(-1, keepdim=True) >= 1
        low, high = torch.where(excess, middle, low), torch.where(excess, high, middle)
    return (x / 2 - low).clamp(min=0).square()


def depthwise_conv_large(x, weight):
    """As a product of every pixel's neighbourhood with the weight."""
    size = weight.shape[-1]
    padded = functional.pad(x, (size // 2,) * 4)
    return torch.einsum("bchwij,cij->bchw", padded.unfold(2, size, 1).unfold(3, size, 1), weight)


def rational_activation(x, numerator, denominator):
    """By powers."""
    powers = torch.stack([x**power for power in range(6)], dim=-1)
    above = (powers * numerator[:, None]).sum(-1)
    return above / (1 + (powers[..., 1:5] * denominator[:, None]).abs().sum(-1))


def monarch_matmul(x, first, second):
    """As one dense matrix: a block-diagonal one, a permutation, another one, another permutation."""
    blocks, hidden, _ = first.shape
    order = torch.arange(blocks * hidden).reshape(hidden, blocks).t().flatten()
    columns = torch.arange(blocks * second.shape[1]).reshape(blocks, second.shape[1]).t().flatten()
    dense = (torch.block_diag(*second) @ torch.block_diag(*first)[order])[columns]
    return (x.flatten(1) @ dense.t()).reshape(len(x), second.shape[1], blocks)


def dora_compose(weight, down, up, magnitude, scale):
    """Row by row."""
    merged = torch.addmm(weight, up, down, alpha=scale)
    return torch.stack(
        [length * functional.normalize(row, dim=0) for length, row in zip(magnitude, merged, strict=True)]
    )


def lightning_attention(q, k, v, slope):
    """Position by position, with one state a head."""
    kept = torch.exp(-slope)[:, None]
    return gated_linear_attention(
        q * q.shape[-1] ** 0.5, k, v, torch.log(kept).expand(k.shape[1:3])[..., None].expand_as(k)
    )


def gated_linear_attention(q, k, v, gate):
    """Position by position, with one state a head."""
    state, rows = q.new_zeros((*k.shape[:2], k.shape[-1], v.shape[-1])), []
    for at in range(k.shape[2]):
        state = state * torch.exp(gate[:, :, at, :, None]) + k[:, :, at, :, None] * v[:, :, at, None, :]
        rows.append(torch.einsum("bhk,bhkv->bhv", q[:, :, at] * k.shape[-1] ** -0.5, state))
    return torch.stack(rows, dim=2)


def ssd_chunk_scan(x, step, rate, written, read):
    """As one lower triangular matrix a head."""
    logs = (step * rate[:, None]).cumsum(-1)
    decay = torch.exp((logs[..., :, None] - logs[..., None, :]).clamp(max=0)).tril()
    scores = torch.einsum("btn,bsn->bts", read, written)
    return torch.einsum("bts,bhts,bhs,bhsp->bhtp", scores, decay, step, x)


def simplicial_attention(q, k1, v1, k2, v2, window1, window2):
    """Every query with every pair of positions, those outside of the windows left out."""
    logits = torch.einsum("bhid,bhjd,bhkd->bhijk", q, k1, k2) * q.shape[-1] ** -0.5
    places = torch.arange(q.shape[2])
    behind = places[:, None] - places[None, :]
    first, second = ((behind >= 0) & (behind < window) for window in (window1, window2))
    allowed = first[:, :, None] & second[:, None, :]
    weights = functional.softmax(logits.masked_fill(~allowed, float("-inf")).flatten(3), dim=-1).reshape(logits.shape)
    return torch.einsum("bhijk,bhjd,bhkd->bhid", weights, v1, v2)


def moe_swiglu(gate_weight, up_weight, down_weight, x, expert, share):
    """Token by token, slot by slot."""
    y = torch.zeros_like(x)
    for token, slot in torch.cartesian_prod(torch.arange(len(x)), torch.arange(expert.shape[1])):
        chosen = expert[token, slot]
        hidden = functional.silu(gate_weight[chosen] @ x[token]) * (up_weight[chosen] @ x[token])
        y[token] += share[token, slot] * (down_weight[chosen] @ hidden)
    return y


FORMULATIONS = {
    each.__name__: each
    for each in (
        entmax15,
        depthwise_conv_large,
        rational_activation,
        monarch_matmul,
        dora_compose,
        lightning_attention,
        gated_linear_attention,
        ssd_chunk_scan,
        simplicial_attention,
        moe_swiglu,
    )
}
FORMULATIONS["rational_activation_backward"] = rational_activation
LONGER = {name: {"T": 150} for name in ("lightning_attention", "gated_linear_attention", "ssd_chunk_scan")}
"""Sequences of several chunks."""
