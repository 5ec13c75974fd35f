"""The CUDA driver on paper: stands in for `cuda.bindings.driver`. Memory is the host's, launches are written down.

Machine code here is JSON: how many `parameters` a kernel takes, and what the driver would say of it. What a kernel
does is a Python function under its `does`, in `Paper.deeds`; it runs when the launch does.
"""

# The names are the driver's.
# ruff: noqa: N802

import ctypes
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum
from types import SimpleNamespace
from typing import Any

import pytest

from workers import driver

CLUSTER = "CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION"


class Result(IntEnum):
    CUDA_SUCCESS = 0
    CUDA_ERROR_INVALID_VALUE = 1
    CUDA_ERROR_OUT_OF_MEMORY = 2
    CUDA_ERROR_NO_BINARY_FOR_GPU = 209
    CUDA_ERROR_ILLEGAL_ADDRESS = 700


class Names:
    """Every attribute is its own name."""

    def __getattr__(self, name: str) -> str:
        return name


def code(
    parameters: int, does: str = "nothing", shared: int = 0, threads: int = 1024, us: float = 1.0, local: int = 0
) -> bytes:
    """Machine code of a kernel."""
    facts = {"parameters": parameters, "does": does, "shared": shared, "threads": threads, "us": us, "local": local}
    return json.dumps(facts).encode()


@dataclass(frozen=True)
class Launched:
    """One launch: which kernel, how, and the bits of its parameters."""

    entry: str
    does: str
    grid: tuple[int, int, int]
    threads: int
    shared: int
    parameters: tuple[int, ...]
    ctas: int = 1


@dataclass
class Paper:
    """The driver of a machine with one card, or several that are alike.

    Attributes:
        launched: Launches, in the order in which they ran.
        deeds: What kernels do, by the word in their code.
        log: Every enqueued thing by name, in order; launches by what they do.
        failing: Errors by the name of the call that reports them, or by what a kernel does; by `launch` and
            what it does where it is not even launched.
        clusters: Clusters that the card holds at a time.
        cards: How many there are.
        maps: Tensor maps that were asked for.
        full: Cards that have no memory left for another process.
    """

    launched: list[Launched] = field(default_factory=list)
    deeds: dict[str, Callable[[Launched], None]] = field(default_factory=dict)
    log: list[str] = field(default_factory=list)
    failing: dict[str, Result] = field(default_factory=dict)
    memory: dict[int, Any] = field(default_factory=dict)
    capability: tuple[int, int] = (9, 0)
    total_bytes: int = 2**30
    address: str = "0000:1B:00.0"
    clusters: int = 4
    cards: int = 1
    full: frozenset[int] = frozenset()
    now_us: float = 0.0
    allowed_shared: dict[int, int] = field(default_factory=dict)
    unloaded: int = 0
    destroyed: int = 0
    maps: list[Any] = field(default_factory=list)
    _functions: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    _tape: list[Callable[[], None]] | None = None
    _lost: Result = Result.CUDA_SUCCESS

    def __post_init__(self) -> None:
        self._encoder = driver.ENCODE(self._encode)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("CU"):
            return Names()
        raise AttributeError(name)

    def _said(self, call: str, *values: Any) -> tuple[Any, ...]:
        return (self.failing.get(call, self._lost), *values)

    def cuInit(self, flags: int):
        return self._said("cuInit")

    def cuDeviceGetCount(self):
        return self._said("cuDeviceGetCount", self.cards)

    def cuDeviceGet(self, index: int):
        return self._said("cuDeviceGet", index)

    def cuDevicePrimaryCtxRetain(self, device: int):
        if device in self.full:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        return self._said("cuDevicePrimaryCtxRetain", 77)

    def cuCtxSetCurrent(self, context: int):
        return self._said("cuCtxSetCurrent")

    def cuCtxGetDevice(self):
        return self._said("cuCtxGetDevice", 0)

    def cuCtxSynchronize(self):
        return self._said("cuCtxSynchronize")

    def cuDriverGetVersion(self):
        return self._said("cuDriverGetVersion", 12090)

    def cuDeviceGetName(self, size: int, device: int):
        return self._said("cuDeviceGetName", b"Paper H200\0\0\0")

    def cuDeviceGetPCIBusId(self, size: int, device: int):
        return self._said("cuDeviceGetPCIBusId", (self.address.encode() + b"\0").ljust(size))

    def cuDeviceTotalMem(self, device: int):
        return self._said("cuDeviceTotalMem", self.total_bytes)

    def cuDeviceGetAttribute(self, which: str, device: int):
        name = which.removeprefix("CU_DEVICE_ATTRIBUTE_")
        values = {
            "COMPUTE_CAPABILITY_MAJOR": self.capability[0],
            "COMPUTE_CAPABILITY_MINOR": self.capability[1],
            "MULTIPROCESSOR_COUNT": 132,
            "MEMORY_CLOCK_RATE": 3_201_000,
            "GLOBAL_MEMORY_BUS_WIDTH": 6144,
            "L2_CACHE_SIZE": 65536,
            "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448,
            "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472,
            "MAX_REGISTERS_PER_MULTIPROCESSOR": 65536,
            "MAX_THREADS_PER_MULTIPROCESSOR": 2048,
            "MAX_GRID_DIM_X": 2**31 - 1,
            "MAX_GRID_DIM_Y": 65535,
            "MAX_GRID_DIM_Z": 65535,
        }
        return self._said("cuDeviceGetAttribute", values[name])

    def cuMemAlloc(self, size: int):
        if size + sum(map(len, self.memory.values())) > self.total_bytes:
            return Result.CUDA_ERROR_OUT_OF_MEMORY, 0
        memory = ctypes.create_string_buffer(size + 256)
        pointer = -(-ctypes.addressof(memory) // 256) * 256
        self.memory[pointer] = memory
        return self._said("cuMemAlloc", pointer)

    def cuMemFree(self, pointer: int):
        del self.memory[pointer]
        return self._said("cuMemFree")

    def cuIpcGetMemHandle(self, pointer: int):
        return self._said("cuIpcGetMemHandle", SimpleNamespace(reserved=pointer.to_bytes(64, "little")))

    def CUipcMemHandle(self):
        return SimpleNamespace(reserved=b"")

    def cuIpcOpenMemHandle(self, handle: Any, flags: str):
        return self._said("cuIpcOpenMemHandle", int.from_bytes(handle.reserved, "little"))

    def cuIpcCloseMemHandle(self, pointer: int):
        self.log.append("close")
        return self._said("cuIpcCloseMemHandle")

    def cuMemcpyHtoDAsync(self, target: int, source: int, size: int, stream: int):
        ctypes.memmove(target, source, size)
        return self._said("cuMemcpyHtoDAsync")

    def cuMemcpyDtoH(self, target: int, source: int, size: int):
        ctypes.memmove(target, source, size)
        return self._said("cuMemcpyDtoH")

    def cuMemsetD8Async(self, target: int, value: int, size: int, stream: int):
        ctypes.memset(target, value, size)
        return self._said("cuMemsetD8Async")

    def cuModuleLoadData(self, data: bytes):
        self._functions.append(("", json.loads(data)))
        return self._said("cuModuleLoadData", len(self._functions) - 1)

    def cuModuleGetFunction(self, module: int, entry: bytes):
        self._functions[module] = (entry.decode(), self._functions[module][1])
        return self._said("cuModuleGetFunction", module)

    def cuModuleUnload(self, module: int):
        self.unloaded += 1
        return self._said("cuModuleUnload")

    def cuFuncSetAttribute(self, function: int, which: str, value: int):
        if which == "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES":
            self.allowed_shared[function] = value
        return self._said("cuFuncSetAttribute")

    def cuFuncGetAttribute(self, which: str, function: int):
        key = {
            "CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES": "shared",
            "CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES": "local",
            "CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK": "threads",
        }[which]
        return self._said("cuFuncGetAttribute", self._functions[function][1][key])

    CUresult = Result

    def cuGetProcAddress(self, name: bytes, version: int, flags: str):
        assert name == b"cuTensorMapEncodeTiled"
        return self._said("cuGetProcAddress", ctypes.cast(self._encoder, ctypes.c_void_p).value, 0)

    def _encode(self, target, element, rank, address, sizes, strides, box, steps, *how) -> int:
        """Write down what a tensor map is asked to be; in its memory the address stands first."""
        assert target % 64 == 0
        array = {8: ctypes.c_uint64, 4: ctypes.c_uint32}
        parts = [(sizes, rank, 8), (strides, rank - 1, 8), (box, rank, 4), (steps, rank, 4)]
        self.maps.append((element, address, *(tuple((array[w] * n).from_address(at)) for at, n, w in parts), how))
        ctypes.memset(target, 0, 128)
        ctypes.c_uint64.from_address(target).value = address
        return int(self.failing.get("cuTensorMapEncodeTiled", 0))

    def cuLaunchKernel(self, function: int, *how: int):
        x, y, z, threads, _, _, shared, _, address, _ = how
        refused = self.failing.get(f"launch {self._functions[function][1]['does']}")
        if refused is not None:
            return (refused,)
        self._launch(function, (x, y, z), threads, shared, address, 1)
        return self._said("cuLaunchKernel")

    def CUlaunchConfig(self):
        return SimpleNamespace()

    def CUlaunchAttribute(self):
        return SimpleNamespace(id="", value=SimpleNamespace(clusterDim=SimpleNamespace()))

    def cuLaunchKernelEx(self, config: Any, function: int, address: int, extra: int):
        ctas = next(each.value.clusterDim.x for each in config.attrs[: config.numAttrs] if each.id == CLUSTER)
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        self._launch(function, grid, config.blockDimX, config.sharedMemBytes, address, ctas)
        return self._said("cuLaunchKernelEx")

    def cuOccupancyMaxActiveClusters(self, function: int, config: Any):
        return self._said("cuOccupancyMaxActiveClusters", self.clusters)

    def cuStreamCreate(self, flags: str):
        return self._said("cuStreamCreate", 5)

    def cuStreamSynchronize(self, stream: int):
        self._do(lambda: None, "synchronise")
        return self._said("cuStreamSynchronize")

    def cuCtxResetPersistingL2Cache(self):
        self.log.append("reset")
        return self._said("cuCtxResetPersistingL2Cache")

    def cuEventCreate(self, flags: str):
        return self._said("cuEventCreate", SimpleNamespace(at_us=None))

    def cuEventRecord(self, event: Any, stream: int):
        self._do(lambda: setattr(event, "at_us", self.now_us), "event")
        return self._said("cuEventRecord")

    def cuEventElapsedTime(self, start: Any, stop: Any):
        return self._said("cuEventElapsedTime", (stop.at_us - start.at_us) / 1e3)

    def cuStreamBeginCapture(self, stream: int, mode: str):
        self._tape = []
        return self._said("cuStreamBeginCapture")

    def cuStreamEndCapture(self, stream: int):
        graph, self._tape = self._tape, None
        return self._said("cuStreamEndCapture", graph)

    def cuGraphInstantiate(self, graph: Any, flags: int):
        return self._said("cuGraphInstantiate", graph)

    def cuGraphDestroy(self, graph: Any):
        return self._said("cuGraphDestroy")

    def cuGraphUpload(self, graph: Any, stream: int):
        return self._said("cuGraphUpload")

    def cuGraphLaunch(self, graph: Any, stream: int):
        self.log.append("graph")
        for each in graph:
            each()
        return self._said("cuGraphLaunch")

    def cuGraphExecDestroy(self, graph: Any):
        self.destroyed += 1
        return self._said("cuGraphExecDestroy")

    def _launch(
        self, function: int, grid: tuple[int, int, int], threads: int, shared: int, address: int, ctas: int
    ) -> None:
        entry, facts = self._functions[function]
        addresses = (ctypes.c_uint64 * facts["parameters"]).from_address(address)
        cells = tuple(ctypes.c_uint64.from_address(cell).value for cell in addresses)
        launched = Launched(entry, facts["does"], grid, threads, shared, cells, ctas)

        def run() -> None:
            self.now_us += facts["us"]
            self.launched.append(launched)
            self.deeds.get(launched.does, lambda _: None)(launched)
            self._lost = self.failing.get(launched.does, self._lost)

        self._do(run, launched.does)

    def _do(self, deed: Callable[[], None], name: str) -> None:
        if self._tape is not None:
            self._tape.append(deed)
            return
        self.log.append(name)
        deed()


@contextmanager
def bound_to(bindings: object) -> Iterator[None]:
    """While it is entered, `workers.driver` finds these bindings, or None."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(driver, "_cuda", bindings)
        yield


@contextmanager
def on_paper() -> Iterator[Paper]:
    """While it is entered, `workers.driver` talks to a driver on paper."""
    paper = Paper()
    with bound_to(paper):
        yield paper
