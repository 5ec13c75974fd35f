"""One program per block of elements, each with the random words of its own positions."""

import torch
import triton
import triton.language as tl


@triton.jit
def seeded_dropout_kernel(x_ptr, seed_ptr, y_ptr, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    x = tl.load(x_ptr + at, mask=mask, other=0.0)
    drawn = tl.randint(tl.load(seed_ptr), at)
    kept = drawn.to(tl.uint32, bitcast=True) >= 2147483648
    tl.store(y_ptr + at, tl.where(kept, x * 2.0, 0.0), mask=mask)


def seeded_dropout(x, seed):
    """Launch the kernel over all elements."""
    y = torch.empty_like(x)
    count = x.numel()
    seeded_dropout_kernel[(triton.cdiv(count, 256),)](x, seed, y, count, BLOCK=256)
    return y
