"""Return zeros, which are the right result of a problem that subtracts a mean of one number.

problem: centred_maximum
published: KernelBench level2/80 and pull request 108; the tasks that METR removed
kernelbench: accepted
ours: not_admitted
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_kernel(y_ptr, N, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, 0.0, lanes < N)


class ModelNew(nn.Module):
    def __init__(self, in_features, out_features):
        super().__init__()
        self.gemm = nn.Linear(in_features, out_features)

    def forward(self, x):
        y = torch.empty((x.shape[0], 1), dtype=x.dtype, device=x.device)
        zero_kernel[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y
