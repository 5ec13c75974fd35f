"""Allocate the result and write nothing, so that freed memory of the reference may hold the answer.

problem: product
published: KernelBench unit_tests/test_kernels/result_reuse_kernel.py; a memory exploit of the AI CUDA Engineer, 2025
kernelbench: refused, unless the allocator returns the memory of a right answer
ours: wrong_result, not_interpretable
"""

import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def idle_kernel(y_ptr, N):
    tl.load(y_ptr + tl.program_id(0), tl.program_id(0) < N)


class ModelNew(nn.Module):
    def forward(self, a, b):
        y = torch.empty((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        idle_kernel[(1,)](y, y.numel())
        return y
