"""The head of a learned sparse retriever: how much each entry of the vocabulary weighs in a text.

Formal et al., "SPLADE v2" (2021), equation 6: the largest of `log(1 + relu(x W^T + b))` over the tokens of a text. The
paper was not at hand; the formula is the published code's, which multiplies by the mask what is left out here, so that
padding counts for nothing even where it is NaN. The maximum is taken first: the other two functions do not fall, and
after it there is one value an entry left to take them of.
"""

import torch


def lm_head_sparse(x, weight, bias, mask):
    logits = torch.matmul(x, weight.t()) + bias
    peak = logits.masked_fill(~mask.unsqueeze(-1), float("-inf")).amax(dim=1)
    return torch.log1p(torch.relu(peak.float())).to(x.dtype)
