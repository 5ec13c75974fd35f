"""A mixture of experts with SwiGLU, routing done: `y = sum over chosen e of share (silu(x Ge^T) * (x Ue^T)) De^T`.

The layer of Jiang et al., "Mixtral of Experts" (2024), section 2.1, with expert feed-forward layers after Shazeer,
"GLU Variants Improve Transformer" (2020), equation 6; written down from memory of both. An expert that is chosen
twice counts twice. Shapes may not depend on values, so here every expert sees every token and most results are thrown
away: baselines do E / K times the work that is needed, and kernels look that much better beside them.
"""

import torch


def moe_swiglu(gate_weight, up_weight, down_weight, x, expert, share):
    gate = torch.matmul(x, gate_weight.transpose(1, 2)).float()
    up = torch.matmul(x, up_weight.transpose(1, 2)).float()
    hidden = (gate * torch.sigmoid(gate) * up).to(x.dtype)
    results = torch.matmul(hidden, down_weight.transpose(1, 2)).float()
    experts = torch.arange(gate_weight.shape[0], device=x.device)
    chosen = expert == experts.reshape(-1, 1, 1)
    shares = share.masked_fill(~chosen, 0.0).sum(dim=-1, keepdim=True)
    return (results * shares).sum(dim=0).to(x.dtype)
