"""Warm-up: imports and runs once what every traced candidate needs, so that its fork finds it ready.

Assembling needs the first step alone, so a process that measures is forked before the others.
"""

import gc
from functools import cache
from importlib import import_module

import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from workers import sandbox
from workers.assembler import read_own_tools
from workers.protocol import Policy
from workers.targets import TARGETS
from workers.tracer.compiler import rehearse
from workers.tracer.libdevice import excerpt
from workers.tracer.recorder import PlanRecorder

_TARGETS = ("sm_90", "sm_100", "gfx942")
# One for each path in Triton: NVIDIA's assembler, Blackwell's own assembler, AMD.


@cache
def warm_assembly() -> None:
    """Probe the sandbox, and read the installed ptxas.

    Raises:
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    sandbox.probe()
    read_own_tools()


@cache
def warm() -> None:
    """Probe the sandbox, import, compile and record once, then exclude shared objects from garbage collection.

    Raises:
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    torch.set_num_threads(1)
    warm_assembly()
    for name in _TARGETS:
        rehearse(TARGETS[name])
    excerpt()
    _record()
    gc.collect()
    gc.freeze()


@cache
def warm_references() -> None:
    """Import once what torch needs for references on tensors without data, which takes a second."""
    FakeTensorMode()
    gc.freeze()


@cache
def warm_drafts() -> None:
    """Import Inductor before the first draft: without this every draft imports it anew, which takes a second."""
    warm_references()
    import_module("torch._inductor.graph")
    gc.freeze()


def _record() -> None:
    """Record once, because torch imports its meta kernels at their first use."""
    sample = torch.empty(2, 3, device="meta")
    with torch.no_grad(), PlanRecorder(Policy(host="copy"), [sample]):
        torch.empty_like(sample)
        torch.zeros_like(sample)
        sample.new_full((2,), 1.0)
        sample.t().contiguous()
        sample.to(torch.float16)
