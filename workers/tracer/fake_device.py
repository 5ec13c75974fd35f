"""The fake device: `torch.cuda` and Triton's driver answer for the job's target, not for the machine that traces.

It is set up once in the sandbox's child, which ends with its candidate, so nothing is ever restored.
"""

import types
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NoReturn

import torch
import triton
from triton.backends.compiler import GPUTarget
from triton.runtime import driver

from workers.protocol import Outcome
from workers.targets import Target
from workers.tracer.refusal import TraceRefused
from workers.tracer.without_card import uncompiled

DEVICE = torch.device("cuda", 0)
"""Device that the candidate's tensors report; torch uses this name for AMD's devices too."""

_STREAM = types.SimpleNamespace(
    cuda_stream=0,
    device=DEVICE,
    device_index=0,
    stream_id=0,
    synchronize=lambda: None,
    query=lambda: True,
    wait_stream=lambda _: None,
)
# The only stream. Waiting for it does nothing, because a plan's steps run in order.

_CUDA_VERSION = "13.0"
_HIP_VERSION = "7.0"
# Answers of `torch.version`: the toolkits that this range of torch releases is built with.
_RESERVED_BYTES = 2**30
# Memory of the card that a driver reserves, roughly.
_THREADS_BLOCK = 1024
# Maximum threads of a program on every target; CUDA programming guide, HIP programming guide.
_DEFAULT_SHARED_BYTES = 48 * 1024
# Shared memory of a program without an opt-in; CUDA programming guide.


def pretend(target: Target) -> None:
    """Let `torch.cuda`, `torch.version` and `triton.runtime.driver` answer for a target."""
    for name, answer in _cuda_answers(target).items():
        setattr(torch.cuda, name, answer)
    for name in ("mark", "range_push", "range_pop", "range_start", "range_end"):
        setattr(torch.cuda.nvtx, name, _always(0))
    for name, answer in _accelerator_answers().items():
        setattr(torch.accelerator, name, answer)
    for module, name, answer in _OTHER_ANSWERS:
        setattr(module, name, answer)
    torch.version.cuda = _CUDA_VERSION if target.vendor == "nvidia" else None
    torch.version.hip = None if target.vendor == "nvidia" else _HIP_VERSION
    for module, name, advice in _REFUSED_CALLS:
        setattr(module, name, _refuse(Outcome.FORBIDDEN_OP, f"host code uses {name}: {advice}"))
    drive(target)
    triton.set_allocator = _always(None)


def drive(target: Target) -> None:
    """Let only `triton.runtime.driver` answer for a target; compiling needs no more."""
    driver.set_active(_TargetDriver(target))


def gpu_target(target: Target) -> GPUTarget:
    """Return the target as Triton's compiler names it."""
    return GPUTarget("cuda" if target.vendor == "nvidia" else "hip", target.arch, target.warp_size)


def _always(value: object) -> Callable[..., Any]:
    """Return a new function that gives the same answer for all arguments."""
    return lambda *_, **__: value


_OTHER_ANSWERS: tuple[tuple[object, str, object], ...] = (
    (torch, "get_device_module", _always(torch.cuda)),
    (torch.library, "wrap_triton", lambda kernel: kernel),
    (torch, "compile", uncompiled),
)
# Outside of torch.compile, a wrapped kernel is launched as it is. Nothing is compiled: what a decorated function
# computes with torch is refused where it does.


def _refuse(outcome: Outcome, reason: str) -> Callable[..., NoReturn]:
    def refused(*_: object, **__: object) -> NoReturn:
        raise TraceRefused(outcome, reason)

    return refused


_ONE_STREAM = "a plan's steps run in order on one stream"
_REFUSED_CALLS = (
    (torch.cuda, "Stream", _ONE_STREAM),
    (torch.cuda, "ExternalStream", _ONE_STREAM),
    (torch.cuda, "Event", "nothing can be timed or awaited while tracing; launch kernels only"),
    (torch.cuda, "CUDAGraph", "the judge captures graphs itself; launch kernels only"),
    (torch.cuda, "graph", "the judge captures graphs itself; launch kernels only"),
    (torch.cuda, "make_graphed_callables", "the judge captures graphs itself; launch kernels only"),
)


def _properties(target: Target) -> types.SimpleNamespace:
    """The fields of `torch.cuda.get_device_properties`, under torch's names."""
    major, minor = target.capability if target.vendor == "nvidia" else _gfx_version(target.name)
    return types.SimpleNamespace(
        name=target.card,
        major=major,
        minor=minor,
        multi_processor_count=target.sms,
        total_memory=target.memory_bytes,
        warp_size=target.warp_size,
        L2_cache_size=target.l2_bytes,
        regs_per_multiprocessor=target.registers_sm,
        max_threads_per_multi_processor=target.threads_sm,
        max_threads_per_block=_THREADS_BLOCK,
        shared_memory_per_block=min(_DEFAULT_SHARED_BYTES, target.shared_block_bytes),
        shared_memory_per_block_optin=target.shared_block_bytes,
        shared_memory_per_multiprocessor=target.shared_sm_bytes,
        clock_rate=target.clock_mhz * 1000,
        gcnArchName=target.name if target.vendor == "amd" else "",
        is_integrated=False,
        is_multi_gpu_board=False,
    )


def _gfx_version(name: str) -> tuple[int, int]:
    """Capability of an AMD target as torch reports it: (9, 4) for `gfx942`, whose last digit is the stepping."""
    return int(name[3:-2]), int(name[-2], 16)


def _cuda_answers(target: Target) -> dict[str, object]:
    properties = _properties(target)
    free_bytes = target.memory_bytes - _RESERVED_BYTES
    idle = ("init", "_lazy_init", "synchronize", "set_device", "empty_cache", "ipc_collect", "reset_peak_memory_stats")
    return {
        **{name: _always(None) for name in idle},
        "is_available": _always(True),
        "is_initialized": _always(True),
        "is_bf16_supported": _always(True),
        "is_tf32_supported": _always(target.vendor == "nvidia"),
        "is_current_stream_capturing": _always(False),
        "device_count": _always(1),
        "current_device": _always(0),
        "_exchange_device": _always(0),
        "_maybe_exchange_device": _always(0),
        "get_device_properties": _always(properties),
        "get_device_capability": _always((properties.major, properties.minor)),
        "get_device_name": _always(target.card),
        "mem_get_info": _always((free_bytes, target.memory_bytes)),
        "memory_allocated": _always(0),
        "max_memory_allocated": _always(0),
        "memory_reserved": _always(0),
        "current_stream": _always(_STREAM),
        "default_stream": _always(_STREAM),
        "stream": lambda _: nullcontext(),
    }


def _accelerator_answers() -> dict[str, object]:
    """Answers of `torch.accelerator` on a machine with one card."""
    return {
        "is_available": _always(True),
        "device_count": _always(1),
        "current_accelerator": _always(torch.device("cuda")),
        "current_device_index": _always(0),
        "current_device_idx": _always(0),
        "set_device_index": _always(None),
        "set_device_idx": _always(None),
        "current_stream": _always(_STREAM),
        "set_stream": _always(None),
        "device_index": lambda _: nullcontext(),
        "empty_cache": _always(None),
        "synchronize": _always(None),
    }


class _TargetDriver:
    """Triton driver for a target that is not on this machine: it answers queries and runs nothing."""

    def __init__(self, target: Target) -> None:
        self._target = gpu_target(target)
        properties = {
            "max_shared_mem": target.shared_block_bytes,
            "max_num_regs": target.registers_sm,
            "multiprocessor_count": target.sms,
            "warpSize": target.warp_size,
            "sm_clock_rate": target.clock_mhz * 1000,
        }
        self.utils = types.SimpleNamespace(get_device_properties=_always(properties))
        self.get_current_device = _always(0)
        self.set_current_device = _always(None)
        self.get_current_stream = _always(0)
        self.get_device_capability = _always(target.capability)

    @classmethod
    def is_active(cls) -> bool:
        return True

    def map_python_to_cpp_type(self, ty: str) -> str:
        return ty

    def get_current_target(self) -> GPUTarget:
        return self._target

    def get_active_torch_device(self) -> torch.device:
        return DEVICE

    def get_device_interface(self) -> types.ModuleType:
        return torch.cuda

    def get_benchmarker(self) -> NoReturn:
        raise TraceRefused(
            Outcome.FORBIDDEN_OP, "host code times kernels: nothing runs while tracing; use triton.autotune"
        )

    get_empty_cache_for_benchmark = clear_cache = get_benchmarker
