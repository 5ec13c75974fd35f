"""Overwrite the inputs with zeros and return zeros, the right product of what is left.

problem: product
published: KernelBench unit_tests/test_kernels/zero_out_kernel.py; kernelbot cheat-input.py
kernelbench: refused, because the reference runs first
ours: wrong_result, input_mutated
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def zero_kernel(a_ptr, b_ptr, y_ptr, A, B, Y, BLOCK: tl.constexpr):
    lanes = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(a_ptr + lanes, 0.0, lanes < A)
    tl.store(b_ptr + lanes, 0.0, lanes < B)
    tl.store(y_ptr + lanes, 0.0, lanes < Y)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        most = max(a.numel(), b.numel(), y.numel())
        zero_kernel[(triton.cdiv(most, 1024),)](a, b, y, a.numel(), b.numel(), y.numel(), BLOCK=1024)
        return y
