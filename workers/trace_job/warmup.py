"""Warmth: what every traced candidate needs is imported and run once here, so that its fork finds it ready."""

import gc
from functools import cache
from importlib import import_module

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from workers import sandbox
from workers.protocol import Policy
from workers.targets import TARGETS
from workers.tracer.compiler_warmup import rehearse
from workers.tracer.libdevice import excerpt
from workers.tracer.recorder import PlanRecorder

_TARGETS = ("sm_90", "sm_100", "gfx942")
# One for each way that Triton goes: NVIDIA's assembler, the one that Blackwell has of its own, AMD.


def warm() -> None:
    """Probe the jail, import, compile and record once, then keep the garbage collector off what forks share.

    Raises:
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    torch.set_num_threads(1)
    sandbox.probe()
    for name in _TARGETS:
        rehearse(TARGETS[name])
    excerpt()
    _record()
    gc.collect()
    gc.freeze()


@cache
def warm_references() -> None:
    """Import what torch needs for tensors without data, which takes a second: before the first reference, and once."""
    FakeTensorMode()
    gc.freeze()


@cache
def warm_drafts() -> None:
    """Import Inductor before the first draft: without this every draft imports it anew, which takes a second."""
    warm_references()
    import_module("torch._inductor.graph")
    gc.freeze()


def _record() -> None:
    """Torch imports its meta kernels at their first use."""
    sample = torch.empty(2, 3, device="meta")
    with torch.no_grad(), PlanRecorder(Policy(host="copy"), [sample]):
        torch.empty_like(sample)
        torch.zeros_like(sample)
        sample.new_full((2,), 1.0)
        sample.t().contiguous()
        sample.to(torch.float16)
