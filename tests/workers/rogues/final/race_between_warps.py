"""Warps read what others leave in shared memory, without a barrier; what is read changes nothing in practice.

operator: rmsnorm
caught by: racecheck
"""

import torch
import triton
import triton.language as tl


@triton.jit
def rmsnorm_kernel(x_ptr, weight_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask=mask, other=0.0).to(tl.float32)
    weight = tl.load(weight_ptr + cols, mask=mask, other=0.0).to(tl.float32)
    mean_square = tl.sum(x * x, axis=0) / n_cols
    y = x * tl.rsqrt(mean_square + 1e-6) * weight
    swap: tl.constexpr = """{
        .reg .b32 mine, theirs, found;
        .reg .pred lucky;
        mov.u32 mine, %tid.x;
        shl.b32 mine, mine, 2;
        add.u32 mine, mine, 8192;
        xor.b32 theirs, mine, 128;
        st.shared.b32 [mine], $1;
        ld.shared.b32 found, [theirs];
        setp.eq.b32 lucky, found, 2143289345;
        selp.b32 $0, found, $1, lucky;
        }"""
    y = tl.inline_asm_elementwise(swap, "=f,f", [y], tl.float32, False, 1)
    tl.store(y_ptr + row * n_cols + cols, y, mask=mask)
    if n_cols < 0:
        # Never reached; its tiles have the compiler reserve the shared memory that is used above.
        square = tl.arange(0, 128)[:, None] * 128 + tl.arange(0, 128)[None, :]
        tile = tl.load(x_ptr + square)
        tl.store(y_ptr + square, tl.dot(tile, tl.trans(tile)))


def rmsnorm(x, weight):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    rmsnorm_kernel[(n_rows,)](x, weight, y, n_cols, BLOCK=triton.next_power_of_2(n_cols), num_warps=8)
    return y
