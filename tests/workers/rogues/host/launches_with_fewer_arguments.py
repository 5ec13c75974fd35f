"""Rewrites a recorded launch so that it passes less than the kernel takes."""

import torch
import triton
import triton.language as tl


@triton.jit
def scale_kernel(x_ptr, w_ptr, y_ptr, n_cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < n_cols
    x = tl.load(x_ptr + row * n_cols + cols, mask)
    w = tl.load(w_ptr + cols, mask)
    tl.store(y_ptr + row * n_cols + cols, x * w, mask)


recorder = torch.sys.modules["workers.tracer.recorder"].PlanRecorder
add = recorder.add


def fewer(self, step):
    if step.op == "launch":
        step = step.model_copy(update={"arguments": step.arguments[:3]})
    add(self, step)


recorder.add = fewer


def scale(x, w):
    y = torch.empty_like(x)
    scale_kernel[(x.shape[0],)](x, w, y, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return y
