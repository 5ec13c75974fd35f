"""The last layer of a language model and its loss: Wijmans et al., "Cut Your Losses" (2024), without a reduction.

Log-sum-exp of `x W^T` over the vocabulary less the logit of the target, for every token. The paper was not at hand.
"""

import torch


def linear_cross_entropy(x, weight, target):
    logits = torch.matmul(x, weight.t()).float()
    shifted = logits - logits.amax(dim=-1, keepdim=True)
    chosen = shifted.gather(1, target.unsqueeze(1)).squeeze(1)
    return torch.log(torch.exp(shifted).sum(dim=-1)) - chosen
