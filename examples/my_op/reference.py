"""A residual branch, scaled and added, then RMSNorm of the sum. Both the normalised and the plain sum are results."""

import torch


def residual_rmsnorm(x, branch, weight, scale):
    total = x.float() + scale * branch.float()
    normed = total * torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + 1e-6) * weight.float()
    return normed.to(x.dtype), total.to(x.dtype)
