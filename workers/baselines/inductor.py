"""TorchInductor as torch.compile has it, on a card that others use too.

Most of what it takes is the host's: meanwhile others have the card. Where it times kernels to choose among them it is
alone, for whatever ran beside them would decide. It fills the tensors that it times them on beside others.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import torch
from torch._inductor import list_mode_options
from torch._inductor.runtime import benchmarking

from workers.gpu_lock import GpuLock

LINGER_S = 0.25
"""Seconds until the next kernel is timed, at most: it is compiled meanwhile. To hand the card over takes as long where
others are at work, and a contender's kernels are timed some hundred times."""


def compiled(module: torch.fx.GraphModule, mode: str, gpu_lock: GpuLock) -> Callable[..., Any]:
    """A module that is compiled when it is called first, for static shapes.

    Args:
        module: What to compile.
        mode: Of torch.compile, by its name.
        gpu_lock: On the card; whoever calls the module is among others.
    """
    options = list_mode_options(mode, dynamic=False)

    def inductor(graph: torch.fx.GraphModule, inputs: Sequence[torch.Tensor]) -> object:
        _finish()
        with gpu_lock.away():
            # Importing it takes seconds.
            return import_module("torch._inductor.compile_fx").compile_fx(graph, inputs, config_patches=options)

    return torch.compile(module, backend=inductor, dynamic=False, fullgraph=True)


@contextmanager
def exclusive_tuning(gpu_lock: GpuLock) -> Iterator[None]:
    """Have kernels that TorchInductor times be alone on the card, whichever compilation they belong to."""
    benchmarker: Any = benchmarking.benchmarker
    benchmark_gpu = benchmarker.benchmark_gpu

    def exclusive(*args: object, **options: object) -> object:
        _finish()
        with gpu_lock.exclusive(LINGER_S):
            return benchmark_gpu(*args, **options)

    # Kernels are timed at their first launch, too, in a call that TorchDynamo looks into.
    benchmarker.benchmark_gpu = torch.compiler.disable(exclusive)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        benchmarker.benchmark_gpu = benchmark_gpu


def _finish() -> None:
    """Wait for what was started on the card, if there is one."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
