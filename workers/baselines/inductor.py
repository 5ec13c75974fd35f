"""TorchInductor as torch.compile runs it, on a shared card.

Most of its time is the host's: meanwhile other processes use the card. While it times kernels to choose among them it
has the card alone, because concurrent work would decide the choice. It fills its test tensors beside others.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import cache, wraps
from importlib import import_module
from typing import Any, TypeAlias

import torch
from torch._inductor import list_mode_options
from torch._inductor.runtime import benchmarking
from torch._inductor.runtime.triton_heuristics import CachingAutotuner

from workers.gpu_lock import GpuLock

Method: TypeAlias = Callable[..., object]
Lock: TypeAlias = Callable[[], AbstractContextManager[None]]

LINGER_S = 0.03
"""Maximum seconds that the card stays reserved until the next kernel is timed: the next of several that are compiled
follows at once. One that must be compiled first takes longer, and others have the card meanwhile."""
TUNING = ("autotune_to_one_config", "coordinate_descent_tuning")
"""Methods of TorchInductor that choose a kernel's configuration at its first launch. They compile each configuration,
some of them for a second, and time it."""


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


@cache
def prepare() -> None:
    """Import what TorchDynamo needs for its first trace: seconds, for which nobody should wait for the card."""
    torch.compile(torch.neg, backend="eager", dynamic=False, fullgraph=True)(torch.ones(1))


@contextmanager
def exclusive_tuning(gpu_lock: GpuLock) -> Iterator[None]:
    """Lock the card exclusively while TorchInductor times kernels, and release it while it compiles the next one."""
    with ExitStack() as stack:
        _lock(stack, benchmarking.benchmarker, "benchmark_gpu", lambda: gpu_lock.exclusive(LINGER_S))
        for name in TUNING:
            _lock(stack, CachingAutotuner, name, gpu_lock.away)
        yield


def _lock(stack: ExitStack, owner: object, name: str, lock: Lock) -> None:
    """Have a method hold a lock while it runs, until the stack ends."""
    before = getattr(owner, name)
    # Kernels are also tuned at their first launch, in a call that TorchDynamo traces.
    setattr(owner, name, torch.compiler.disable(_locked(before, lock)))  # type: ignore[no-untyped-call]
    stack.callback(setattr, owner, name, before)


def _locked(method: Method, lock: Lock) -> Method:
    """Return a method that holds a lock while it runs. What it was given is finished before."""

    @wraps(method)
    def locked(*args: object, **options: object) -> object:
        _finish()
        with lock():
            return method(*args, **options)

    return locked


def _finish() -> None:
    """Wait for work on the card, if there is a card."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
