"""Product with ternary weights: Ma et al., "The Era of 1-bit LLMs: All Large Language Models are in 1.58 Bits" (2024).

Activations are 8-bit integers with a scale for every token, weights are -1, 0 or 1 with one scale. The paper was not at
hand; quantisation is left to whoever makes the inputs. The packing is ours, after those in use: a code of 2 bits is the
weight plus one, and four codes are in a byte, the first feature's in the lowest bits. The fourth code, which ternary
weights never have and drawn ones do, stands for 2, so that kernels need no case for it.
The product of the integers, exact in float32, is torch's of float32 matrices, since torch has none of int8 for cards.
"""

import torch


def ternary_matmul(x, x_scale, w, w_scale):
    shifts = torch.arange(0, 8, 2, dtype=torch.uint8, device=w.device)
    codes = (w.unsqueeze(2) >> shifts) & 3
    weight = codes.flatten(1).float() - 1.0
    product = torch.matmul(x.flatten(1).float(), weight.t())
    return (product * x_scale.unsqueeze(1) * w_scale).to(torch.bfloat16)
