"""Cross entropy of class indices against logits, mean over rows: log-sum-exp of the row minus the target's logit.

Bishop, "Pattern Recognition and Machine Learning" (2006), equation 4.108, divided by the number of rows. Rows are
shifted by their maximum, so that an infinite logit makes the loss NaN, as `torch.nn.functional.cross_entropy` has it.
"""

import torch


def cross_entropy(logits, target):
    wide = logits.float()
    shifted = wide - wide.amax(dim=-1, keepdim=True)
    chosen = shifted.gather(1, target.unsqueeze(1)).squeeze(1)
    return (torch.log(torch.exp(shifted).sum(dim=-1)) - chosen).mean()
