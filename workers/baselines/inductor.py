"""TorchInductor as torch.compile runs it, on a shared card.

Most of its time is the host's: meanwhile other processes use the card. While it times kernels to choose among them it
has the card alone, because concurrent work would decide the choice. It fills its test tensors beside others.
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
"""Maximum seconds that the card stays reserved until the next kernel is timed; that kernel is compiled meanwhile.
Passing a busy card on takes as long, and a contender's kernels are timed some hundred times."""


def compiled(module: torch.fx.GraphModule, mode: str, gpu_lock: GpuLock) -> Callable[..., Any]:
    """Return a module that is compiled at its first call, for static shapes.

    Args:
        module: Module to compile.
        mode: Name of the mode of torch.compile.
        gpu_lock: Lock of the card, which the module's caller holds shared.
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
    """Lock the card exclusively while TorchInductor times kernels, in any compilation."""
    benchmarker: Any = benchmarking.benchmarker
    benchmark_gpu = benchmarker.benchmark_gpu

    def exclusive(*args: object, **options: object) -> object:
        _finish()
        with gpu_lock.exclusive(LINGER_S):
            return benchmark_gpu(*args, **options)

    # Kernels are also timed at their first launch, in a call that TorchDynamo traces.
    benchmarker.benchmark_gpu = torch.compiler.disable(exclusive)  # type: ignore[no-untyped-call]
    try:
        yield
    finally:
        benchmarker.benchmark_gpu = benchmark_gpu


def _finish() -> None:
    """Wait for work on the card, if there is a card."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
