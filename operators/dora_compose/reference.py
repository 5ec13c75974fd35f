"""DoRA's weight: the frozen one and its low-rank update, every row brought to a learnt length.

Liu et al., "DoRA: Weight-Decomposed Low-Rank Adaptation" (2024), equation 5, `m (W + s B A) / |W + s B A|`, with a
norm for every output feature and the factor s of the update as the PEFT library has them; written down from memory of
both. No epsilon: a row of zeros is NaN.
"""


def dora_compose(weight, down, up, magnitude, scale):
    merged = weight.float() + (up.float() @ down.float()) * scale
    norm = merged.pow(2).sum(dim=-1, keepdim=True).sqrt()
    return (merged * (magnitude.float().unsqueeze(-1) / norm)).to(weight.dtype)
