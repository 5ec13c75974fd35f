"""In Gluon; asks for its tile one column to the left, where the copy engine fills in zeros.

operator: gelu
on a card: device_fault, wrong_result
at: check
stopped by: results on secret inputs
on model: not_interpretable
"""

import torch
import triton
from triton.experimental import gluon
from triton.experimental.gluon import language as gl
from triton.experimental.gluon.language.nvidia.hopper import fence_async_shared, mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

barrier = getattr(gl, "barrier", None) or gl.thread_barrier
load_tile = getattr(tma, "async_load", None) or tma.async_copy_global_to_shared
store_tile = getattr(tma, "async_store", None) or tma.async_copy_shared_to_global


@gluon.jit
def gelu_of(x):
    inner = 0.7978845608028654 * (x + 0.044715 * x * x * x)
    return x / (1.0 + gl.exp(-2.0 * inner))


@gluon.jit
def bulk_kernel(x_tiles, y_tiles, across, ROWS: gl.constexpr, COLS: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1, 8], [4, 8], [gl.num_warps(), 1], [1, 0])
    staged = gl.allocate_shared_memory(gl.bfloat16, [ROWS, COLS], x_tiles.layout)
    ready = gl.allocate_shared_memory(gl.int64, [1], mbarrier.MBarrierLayout())
    mbarrier.init(ready, count=1)
    fence_async_shared()
    at = [gl.program_id(0) // across * ROWS, gl.program_id(0) % across * COLS]
    mbarrier.expect(ready, x_tiles.block_type.nbytes)
    load_tile(x_tiles, [at[0], at[1] - 1], ready, staged)
    mbarrier.wait(ready, 0)
    y = gelu_of(staged.load(layout).to(gl.float32)).to(gl.bfloat16)
    barrier()
    staged.store(y)
    fence_async_shared()
    barrier()
    store_tile(y_tiles, at, staged)
    tma.store_wait(0)


@gluon.jit
def plain_kernel(x_ptr, y_ptr, count, BLOCK: gl.constexpr):
    layout: gl.constexpr = gl.BlockedLayout([1], [32], [gl.num_warps()], [0])
    at = gl.program_id(0).to(gl.int64) * BLOCK + gl.arange(0, BLOCK, layout)
    x = gl.load(x_ptr + at, mask=at < count).to(gl.float32)
    gl.store(y_ptr + at, gelu_of(x).to(gl.bfloat16), mask=at < count)


def gelu(x):
    n_rows, n_cols = x.shape
    y = torch.empty_like(x)
    if n_cols % 8:
        plain_kernel[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024, num_warps=4)
        return y
    rows, cols = 64, 64
    layout = gl.NVMMASharedLayout.get_default_for([rows, cols], gl.bfloat16)
    x_tiles = TensorDescriptor.from_tensor(x, [rows, cols], layout)
    y_tiles = TensorDescriptor.from_tensor(y, [rows, cols], layout)
    across = triton.cdiv(n_cols, cols)
    bulk_kernel[(across * triton.cdiv(n_rows, rows),)](x_tiles, y_tiles, across, rows, cols, num_warps=4)
    return y
