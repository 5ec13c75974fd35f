"""TorchInductor's kernels for references, compiled ahead of the process that chooses among them and times them.

    python -m benchmarks.inductor_compiler --target sm_90 --processes 6     # a request per line of standard input

The kernels are left in Triton's cache, `TRITON_CACHE_DIR`. A process on a card whose cache is the same folder compiles
only what is missing there. Nothing runs on a card here, so nothing can disturb a timing: torch answers for the target,
and every configuration that TorchInductor would time is compiled instead. Its choices are therefore arbitrary; they
stay in `TORCHINDUCTOR_CACHE_DIR`, which must not be the other process's.
"""

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from benchmarks.compile_ahead import CompileRequest
from workers.baselines.contenders import MODES
from workers.baselines.module import to_module
from workers.baselines.server import demand_precision
from workers.inductor_seeds.lowering import forget_machine
from workers.protocol.extent import size_of
from workers.sandbox.syscalls import die_with_parent
from workers.targets import TARGETS, Target
from workers.tracer.fake_device import DEVICE, pretend

CPU = torch.device("cpu")
_TIME_MS, _SLOW_MS = 1.0, 2.0
"""Arbitrary times: a library's function counts as faster than a template, so that what follows it is a kernel too."""


class KernelCollector:
    """TorchInductor for a target without its card. Its kernels are collected, one per configuration.

    Affects the whole process.

    Args:
        target: The target.
    """

    def __init__(self, target: Target) -> None:
        self._kernels: list[tuple[Any, Any]] = []
        pretend(target)
        forget_machine()
        self._answer_for_the_card()
        heuristics = import_module("torch._inductor.runtime.triton_heuristics").CachingAutotuner
        heuristics.precompile = lambda autotuner, *_, **__: self._collect_from(autotuner)
        selection = import_module("torch._inductor.select_algorithm")
        is_call = partial(_is_a, selection.ExternKernelCaller)
        selection.AlgorithmSelectorCache.benchmark_in_current_process = classmethod(partial(_times_of, is_call))
        scheduling = import_module("torch._inductor.codegen.triton").TritonScheduling
        scheduling.benchmark_codegened_module = _time_of_module

    def collect(self, request: CompileRequest, mode: str) -> list[Callable[[], object]]:
        """Return functions that compile the kernels of a mode of torch.compile, one each."""
        operator, graph = request.operator, request.graph
        demand_precision(operator.precision)
        dims = dict(graph.shape.dims)
        with FakeTensorMode(allow_non_fake_inputs=True):
            inputs = [
                torch.empty([size_of(extent, dims) for extent in item.shape], dtype=getattr(torch, item.dtype))
                for item in operator.given
            ]
        for tensor in inputs:
            assert isinstance(tensor, FakeTensor)
            tensor.fake_device = DEVICE
        module = to_module(graph, len(inputs), DEVICE)
        options = import_module("torch._inductor").list_mode_options(mode, dynamic=False)
        self._kernels.clear()
        with torch.no_grad(), contextlib.suppress(Exception):  # What was collected before it failed is compiled.
            import_module("torch._inductor.compile_fx").compile_fx(module, inputs, config_patches=options)
        return [partial(autotuner._precompile_config, configuration) for autotuner, configuration in self._kernels]

    def _collect_from(self, autotuner: Any) -> None:
        """Take the place of a kernel's `precompile`."""
        self._kernels += [(autotuner, configuration) for configuration in autotuner.configs or ()]

    @staticmethod
    def _answer_for_the_card() -> None:
        """Let the parts of torch that look at a card do without."""
        torch.cuda.get_rng_state = lambda *_: torch.zeros(16, dtype=torch.uint8)
        torch.cuda.set_rng_state = lambda *_: None
        vars(import_module("torch._subclasses.fake_tensor"))["init_gpu_context"] = lambda *_: None
        vars(import_module("torch._inductor.runtime.triton_helpers"))["set_driver_to_gpu"] = lambda: None
        # The modules that TorchInductor writes import it; torch for CPUs has none.
        vars(torch._C)["_cuda_getCurrentRawStream"] = lambda _: 0
        for name in ("joint_graph", "post_grad"):
            passes = vars(import_module(f"torch._inductor.fx_passes.{name}"))
            # Their patterns are traced with tensors of a device.
            passes["lazy_init"] = partial(_on_cpu, passes["lazy_init"])


def _on_cpu(begin: Callable[[torch.device], object], *_: object) -> object:
    return begin(CPU)


def _is_a(kind: type, value: object) -> bool:
    return isinstance(value, kind)


def _times_of(is_call: Callable[[object], bool], _: type, choices: Sequence[Any], *__: object, **___: object) -> Any:
    """Collect the kernels of all choices for a product or convolution, and return arbitrary times."""
    for choice in choices:
        if not is_call(choice):
            choice.precompile()
    return {choice: _TIME_MS if is_call(choice) else _SLOW_MS for choice in choices}


def _time_of_module(_: object, module: Any, *__: object, **___: object) -> tuple[float, str]:
    """Collect the kernel of a fusion that may pay, and return an arbitrary time."""
    module.triton_.precompile()
    return _TIME_MS, module.__file__


def compile_all(kernels: Sequence[Callable[[], object]], processes: int) -> None:
    """Compile kernels in forked processes."""
    children = [partial(_compile, kernels[number::processes]) for number in range(min(processes, len(kernels)))]
    for process in [_forked(child) for child in children]:
        os.waitpid(process, 0)


def _compile(kernels: Sequence[Callable[[], object]]) -> None:
    for kernel in kernels:
        with contextlib.suppress(Exception):  # TorchInductor leaves out configurations that do not compile, too.
            kernel()


def _forked(work: Callable[[], object]) -> int:
    """Do work in a child, which ends with this process. Returns its id."""
    process = os.fork()
    if process:
        return process
    try:
        die_with_parent(signal.SIGKILL)
        work()
    finally:
        os._exit(0)


def main() -> None:
    """Compile for requests one after the other, each in a child; a line per request says that it is done."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--target", choices=TARGETS, default="sm_90")
    options.add_argument("--processes", type=int, default=1)
    chosen = options.parse_args()
    die_with_parent(signal.SIGKILL)
    collector = KernelCollector(TARGETS[chosen.target])
    for line in sys.stdin:
        request = CompileRequest.model_validate_json(line)
        for mode in MODES.values():
            work = partial(_serve, collector, request, mode, chosen.processes)
            os.waitpid(_forked(work), 0)
        print("done", flush=True)


def _serve(collector: KernelCollector, request: CompileRequest, mode: str, processes: int) -> None:
    compile_all(collector.collect(request, mode), processes)


if __name__ == "__main__":
    main()
