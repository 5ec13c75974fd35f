"""Return zeros, as every right result is smaller than the absolute tolerance.

problem: softmax
published: KernelBench issue 165: softmax, Frobenius norm, L2 norm and minimum pass as zeros
kernelbench: accepted
ours: wrong_result
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_kernel(y_ptr, N, BLOCK: tl.constexpr):
    lanes = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y_ptr + lanes, 0.0, lanes < N)


class ModelNew(nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        zero_kernel[(triton.cdiv(y.numel(), 1024),)](y, y.numel(), BLOCK=1024)
        return y
