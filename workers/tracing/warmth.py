"""Warmth: what every traced candidate needs is imported and run once here, so that its fork finds it ready."""

import gc
from functools import cache
from typing import Any

import torch
import triton
import triton.language as tl
from torch._subclasses.fake_tensor import FakeTensorMode
from triton.backends.compiler import BaseBackend
from triton.compiler.compiler import ASTSource

from workers import jail
from workers.protocol import Policy
from workers.targets import TARGETS
from workers.tracer.compiler import Compiler
from workers.tracer.pretence import gpu_target
from workers.tracer.recorder import Recorder

_TARGETS = ("sm_90", "sm_100", "gfx942")
# One for each way that Triton goes: NVIDIA's assembler, the one that Blackwell has of its own, AMD.


def _scale(source: tl.tensor, target: tl.tensor, count: tl.tensor, block: tl.constexpr) -> None:
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < count
    total = tl.sum(tl.load(source + offsets, inside, 0.0).to(tl.float32), 0)
    tl.store(target + offsets, tl.exp(total) * offsets, inside)


def warm() -> None:
    """Probe the jail, import, compile and record once, then keep the garbage collector off what forks share.

    Raises:
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    torch.set_num_threads(1)
    jail.probe()
    for name in _TARGETS:
        _compile(name)
    _record()
    gc.collect()
    gc.freeze()


@cache
def warm_references() -> None:
    """Import what torch needs for tensors without data, which takes a second: before the first reference, and once."""
    FakeTensorMode()
    gc.freeze()


def _compile(name: str) -> None:
    signature = {"source": "*bf16", "target": "*fp32", "count": "i32", "block": "constexpr"}
    attributes: dict[Any, Any] = {(0,): BaseBackend.parse_attr("D")}
    source = ASTSource(triton.jit(_scale), signature, {(3,): 128}, attributes)
    Compiler(TARGETS[name]).compile(source, gpu_target(TARGETS[name]), {"num_warps": 4})


def _record() -> None:
    """Torch imports its meta kernels at their first use."""
    sample = torch.empty(2, 3, device="meta")
    with torch.no_grad(), Recorder(Policy(host="copy"), [sample]):
        torch.empty_like(sample)
        torch.zeros_like(sample)
        sample.new_full((2,), 1.0)
        sample.t().contiguous()
        sample.to(torch.float16)
