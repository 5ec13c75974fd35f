"""Index of the largest logit in each row, int64; of several that are equal, the first.

bfloat16 has 8 significant bits, so that the largest of a long row are often equal. NaN counts as larger than any
number: where a row has some, the index is that of the first. So `torch.argmax` has it; here the rule is spelled out, as
the smallest index among those of the largest.
"""

import torch


def argmax(logits):
    wide = logits.float()
    is_largest = (wide == wide.amax(dim=-1, keepdim=True)) | wide.isnan()
    index = torch.arange(logits.shape[-1], device=logits.device)
    return torch.where(is_largest, index, logits.shape[-1]).amin(dim=-1)
