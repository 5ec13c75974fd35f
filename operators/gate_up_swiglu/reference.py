"""The first half of a SwiGLU feed-forward layer: Shazeer, "GLU Variants Improve Transformer" (2020), equation 6.

`silu(x W_gate^T) * (x W_up^T)`, without biases, as Llama has it; the down projection is a product of its own. The
products are torch's of bfloat16, which are added up in float32 and rounded once: what a user would run.
"""

import torch


def gate_up_swiglu(x, w_gate, w_up):
    gate = torch.matmul(x, w_gate.t()).float()
    up = torch.matmul(x, w_up.t()).float()
    return (gate * torch.sigmoid(gate) * up).to(x.dtype)
