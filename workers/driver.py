"""A thin wrapper of the CUDA driver, without policy: the only module that imports `cuda.bindings`.

All functions use the context that `open_card` made current in the calling thread: the card's primary one, which torch
shares. Pointers, streams and sizes are plain numbers; functions, events and graphs are the driver's own handles.
"""

import ctypes
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from workers.errors import ToolMissing
from workers.protocol import DTYPE_BYTES, CardSheet, HostDescriptor

try:
    from cuda.bindings import driver as _bindings
except ImportError:  # A machine that never opens a card.
    _bindings = None

_cuda: Any = _bindings

_FAULTS = """
ASSERT HARDWARE_STACK_ERROR ILLEGAL_ADDRESS ILLEGAL_INSTRUCTION INVALID_ADDRESS_SPACE INVALID_PC LAUNCH_FAILED
LAUNCH_TIMEOUT MISALIGNED_ADDRESS
"""
FAULTS = frozenset(f"CUDA_ERROR_{name}" for name in _FAULTS.split())
"""Errors that a kernel causes and that destroy the context (CUDA driver API, `CUresult`)."""
PLAIN_SHARED_BYTES = 48 * 1024
"""Shared memory of a program that needs no opt-in (CUDA programming guide, compute capabilities)."""
ADDRESS_BYTES = 32
"""Buffer size for a card's bus address; the driver needs 13 bytes (CUDA driver API, `cuDeviceGetPCIBusId`)."""
TENSOR_MAP_BYTES = 128
"""Size of a tensor map (CUDA driver API, `CUtensorMap`)."""
_TENSOR_MAP_ALIGN = 64
_TENSOR_MAPS_SINCE = 12000
# CUDA version that introduced `cuTensorMapEncodeTiled`.
_L2_PROMOTION_128B, _NAN_FILL = 2, 1
# Of `CUtensorMapL2promotion` and `CUtensorMapFloatOOBfill`; Triton's launcher passes the same.
_MASK = 2**64 - 1

ENCODE = ctypes.CFUNCTYPE(
    *(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p),
    *(ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p),
    *(ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int),
)
"""Type of `cuTensorMapEncodeTiled`."""

Handle: TypeAlias = Any
"""One of the driver's own objects: a function, an event, a graph."""
Launcher: TypeAlias = Callable[[int, int], None]
"""A function that enqueues a kernel: takes a stream and the address of its parameters' addresses."""
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"
"""Error of an allocation, or of a launch whose threads need more local memory than there is; the context survives
(`CUresult`)."""


class DriverError(RuntimeError):
    """The driver reported an error.

    Attributes:
        name: Its name, such as `CUDA_ERROR_ILLEGAL_ADDRESS`.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


@dataclass(frozen=True)
class DriverCard:
    """An open card.

    Attributes:
        index: Its number on this machine.
        name: The driver's name of it.
        address: Its address on the bus, such as `0000:1B:00.0`: the same whichever cards a process may see.
        capability: Compute capability.
        sheet: Facts of it, without the highest clock of its SMs: the driver knows the rated one.
        grid: Maximum number of programs along x, y and z.
        versions: Of `driver` (the kernel module) and `cuda` (the newest CUDA that the driver can run).
    """

    index: int
    name: str
    address: str
    capability: tuple[int, int]
    sheet: CardSheet
    grid: tuple[int, int, int]
    versions: dict[str, str]

    @property
    def memory_bytes(self) -> int:
        """Size of its memory."""
        return self.sheet.memory_bytes

    @property
    def l2_bytes(self) -> int:
        """Size of its L2 cache."""
        return self.sheet.l2_bytes


@dataclass(frozen=True)
class DriverFunction:
    """A kernel on the card.

    Attributes:
        handle: The driver's handle.
        module: The module that holds it.
        shared_bytes: Static shared memory.
        local_bytes: Local memory per thread.
        threads: Maximum number of threads per program that its registers allow.
    """

    handle: Handle
    module: Handle
    shared_bytes: int
    local_bytes: int
    threads: int


def address_of(index: int) -> str:
    """Return a card's bus address without opening the card.

    Raises:
        ToolMissing: If this machine has no CUDA driver or no such card.
        DriverError: If the driver cannot be used.
    """
    return _address(_found(index))


def open_card(index: int) -> DriverCard:
    """Make a card's primary context current in this thread.

    Raises:
        ToolMissing: If this machine has no CUDA driver or no such card.
        DriverError: If the card cannot be used.
    """
    device = _found(index)
    context = _done(_cuda.cuDevicePrimaryCtxRetain(device))
    _done(_cuda.cuCtxSetCurrent(context))
    return current_card()


def require_bindings() -> None:
    """Require the driver's interface for Python.

    Raises:
        ToolMissing: If it is not installed; says how to install it.
    """
    if _cuda is None:
        raise ToolMissing("a card needs the package cuda-bindings: pip install 'kernelreef[gpu]'")


def _found(index: int) -> Handle:
    require_bindings()
    try:
        _done(_cuda.cuInit(0))
    except DriverError:
        raise
    except RuntimeError as error:
        raise ToolMissing(f"this machine has no CUDA driver: {error}") from error
    if index >= int(_done(_cuda.cuDeviceGetCount())):
        raise ToolMissing(f"this machine has no card {index}")
    return _done(_cuda.cuDeviceGet(index))


def _address(device: Handle) -> str:
    return _text(_done(_cuda.cuDeviceGetPCIBusId(ADDRESS_BYTES, device)))


def current_card() -> DriverCard:
    """Return the card that is open in this thread.

    Raises:
        DriverError: If no card is open.
    """
    device = _done(_cuda.cuCtxGetDevice())
    version = int(_done(_cuda.cuDriverGetVersion()))
    cuda = f"{version // 1000}.{version % 1000 // 10}"

    def attribute(name: str) -> int:
        which = getattr(_cuda.CUdevice_attribute, f"CU_DEVICE_ATTRIBUTE_{name}")
        return int(_done(_cuda.cuDeviceGetAttribute(which, device)))

    name = _text(_done(_cuda.cuDeviceGetName(128, device)))
    capability = (attribute("COMPUTE_CAPABILITY_MAJOR"), attribute("COMPUTE_CAPABILITY_MINOR"))
    sheet = CardSheet(
        name=name,
        capability=".".join(map(str, capability)),
        sms=attribute("MULTIPROCESSOR_COUNT"),
        memory_clock_mhz=attribute("MEMORY_CLOCK_RATE") // 1000 or None,
        bus_bits=attribute("GLOBAL_MEMORY_BUS_WIDTH") or None,
        memory_bytes=int(_done(_cuda.cuDeviceTotalMem(device))),
        l2_bytes=attribute("L2_CACHE_SIZE"),
        shared_block_bytes=attribute("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        shared_sm_bytes=attribute("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        registers_sm=attribute("MAX_REGISTERS_PER_MULTIPROCESSOR"),
        threads_sm=attribute("MAX_THREADS_PER_MULTIPROCESSOR"),
    )
    return DriverCard(
        index=int(device),
        name=name,
        address=_address(device),
        capability=capability,
        sheet=sheet,
        grid=(attribute("MAX_GRID_DIM_X"), attribute("MAX_GRID_DIM_Y"), attribute("MAX_GRID_DIM_Z")),
        versions={"driver": _module_version() or cuda, "cuda": cuda},
    )


def find_fault() -> str | None:
    """Wait for the card. Returns the name of the error that destroyed its context; None if it is intact."""
    if _cuda is None:
        return None
    try:
        _done(_cuda.cuCtxSynchronize())
    except DriverError as error:
        return error.name if error.name in FAULTS else None
    except RuntimeError:  # The bindings found no driver.
        return None
    return None


def allocate(size: int) -> int:
    """Allocate memory on the card, aligned to 256 bytes. Returns its address.

    Raises:
        DriverError: If there is not enough memory.
    """
    return int(_done(_cuda.cuMemAlloc(size)))


def free(pointer: int) -> None:
    """Free memory."""
    _done(_cuda.cuMemFree(pointer))


def export_memory(pointer: int) -> bytes:
    """Return the handle by which another process opens memory that was allocated here."""
    return bytes(_done(_cuda.cuIpcGetMemHandle(pointer)).reserved)


def import_memory(exported: bytes) -> int:
    """Open another process's memory. Returns its address here."""
    handle = _cuda.CUipcMemHandle()
    handle.reserved = exported
    flags = _cuda.CUipcMem_flags.CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS
    return int(_done(_cuda.cuIpcOpenMemHandle(handle, flags)))


def close_memory(pointer: int) -> None:
    """Close another process's memory."""
    _done(_cuda.cuIpcCloseMemHandle(pointer))


def write(stream: int, pointer: int, source: int, size: int) -> None:
    """Enqueue a copy from host memory at address `source`.

    Up to 64 KiB the source may be reused at once, as the driver has copied it (CUDA driver API, synchronization).
    """
    _done(_cuda.cuMemcpyHtoDAsync(pointer, source, size, stream))


def read(pointer: int, size: int) -> bytes:
    """Wait for all earlier work of the card, then return bytes from it."""
    _done(_cuda.cuCtxSynchronize())
    target = ctypes.create_string_buffer(size)
    _done(_cuda.cuMemcpyDtoH(ctypes.addressof(target), pointer, size))
    return target.raw


def set_bytes(stream: int, pointer: int, value: int, size: int) -> None:
    """Enqueue a fill of every byte."""
    _done(_cuda.cuMemsetD8Async(pointer, value, size, stream))


def load_function(code: bytes, entry: str, shared_bytes: int) -> DriverFunction:
    """Load machine code and find its entry; a launch may then use `shared_bytes` of dynamic shared memory.

    Raises:
        DriverError: If the code is not for this card, or needs more than the card has.
    """
    module = _done(_cuda.cuModuleLoadData(code))
    handle = _done(_cuda.cuModuleGetFunction(module, entry.encode()))
    attributes = _cuda.CUfunction_attribute
    if shared_bytes > PLAIN_SHARED_BYTES:
        limit = attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _done(_cuda.cuFuncSetAttribute(handle, limit, shared_bytes))
    names = ("SHARED_SIZE_BYTES", "LOCAL_SIZE_BYTES", "MAX_THREADS_PER_BLOCK")
    asked = (getattr(attributes, f"CU_FUNC_ATTRIBUTE_{name}") for name in names)
    return DriverFunction(handle, module, *(int(_done(_cuda.cuFuncGetAttribute(each, handle))) for each in asked))


def unload(function: DriverFunction) -> None:
    """Unload a kernel with its module."""
    _done(_cuda.cuModuleUnload(function.module))


class LaunchParameters:
    """The parameters of a launch as the driver takes them: `address` points to the address of every parameter.

    Args:
        cells: The bits of each parameter: a number, little-endian in eight bytes, or a tensor map. Its kernel reads as
            many as it declared.
    """

    def __init__(self, cells: Sequence[int | bytes]) -> None:
        bits = [cell if isinstance(cell, bytes) else (cell & _MASK).to_bytes(8, "little") for cell in cells]
        rooms = [-(-len(each) // _TENSOR_MAP_ALIGN) * _TENSOR_MAP_ALIGN for each in bits]
        self._cells, start = _aligned(sum(rooms))
        addresses = []
        for each, room in zip(bits, rooms, strict=True):
            ctypes.memmove(start, each, len(each))
            addresses.append(start)
            start += room
        self._addresses = (ctypes.c_void_p * len(cells))(*addresses)
        self.address = ctypes.addressof(self._addresses)


def _aligned(size: int) -> tuple[object, int]:
    """Allocate host memory. Returns its owner and an address within it where a tensor map may lie."""
    owner = ctypes.create_string_buffer(size + _TENSOR_MAP_ALIGN)
    address = ctypes.addressof(owner)
    return owner, address + -address % _TENSOR_MAP_ALIGN


def encode_tensor_map(address: int, descriptor: HostDescriptor) -> bytes:
    """Return the bits of a descriptor's tensor map for a tensor at an address, as Triton's launcher has them encoded.

    The bindings' own type is not used: its objects may lie at addresses that the driver faults on.

    Raises:
        DriverError: If the driver does not know tensor maps, or refuses this one.
        ValueError: If the descriptor's kernel takes no tensor map.
    """
    if descriptor.map is None:
        raise ValueError("a decomposed descriptor has no tensor map")
    rank = len(descriptor.shape)
    default = _cuda.CUdriverProcAddress_flags.CU_GET_PROC_ADDRESS_DEFAULT
    found = _cuda.cuGetProcAddress(b"cuTensorMapEncodeTiled", _TENSOR_MAPS_SINCE, default)
    function = int(_done(found[:2]) or 0)
    if not function:
        raise DriverError("CUDA_ERROR_NOT_SUPPORTED")
    _owner, target = _aligned(TENSOR_MAP_BYTES)
    size = DTYPE_BYTES[descriptor.dtype]
    sizes = (ctypes.c_uint64 * rank)(*reversed(descriptor.shape))
    strides = (ctypes.c_uint64 * rank)(*(size * stride for stride in reversed(descriptor.strides[:-1])))
    box = (ctypes.c_uint32 * rank)(*reversed(descriptor.map.box))
    steps = (ctypes.c_uint32 * rank)(*(1 for _ in range(rank)))
    fill = _NAN_FILL if descriptor.nan_fill else 0
    how = (0, descriptor.map.swizzle, _L2_PROMOTION_128B, fill)
    code = ENCODE(function)(target, descriptor.map.element, rank, address, sizes, strides, box, steps, *how)
    _done((_cuda.CUresult(code),))
    return ctypes.string_at(target, TENSOR_MAP_BYTES)


def make_launcher(function: DriverFunction, grid: tuple[int, int, int], threads: int, shared_bytes: int) -> Launcher:
    """Prepare an ordinary launch that can be enqueued many times."""
    launch, handle = _cuda.cuLaunchKernel, function.handle
    x, y, z = grid

    def enqueue(stream: int, parameters: int) -> None:
        _done(launch(handle, x, y, z, threads, 1, 1, shared_bytes, stream, parameters, 0))

    return enqueue


def make_cluster_launcher(
    function: DriverFunction, grid: tuple[int, int, int], threads: int, shared_bytes: int, ctas: int
) -> Launcher | None:
    """Prepare a launch of `grid` clusters of `ctas` blocks. Returns None if the card cannot hold a single cluster.

    Raises:
        DriverError: If the driver refuses it.
    """
    wide = _cuda.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED
    _done(_cuda.cuFuncSetAttribute(function.handle, wide, 1))
    config = _cuda.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid[0] * ctas, grid[1], grid[2]
    config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
    config.sharedMemBytes = shared_bytes
    config.attrs = _cluster_attributes(ctas)
    config.numAttrs = len(config.attrs)
    if not int(_done(_cuda.cuOccupancyMaxActiveClusters(function.handle, config))):
        return None

    def enqueue(stream: int, parameters: int) -> None:
        config.hStream = stream
        _done(_cuda.cuLaunchKernelEx(config, function.handle, parameters, 0))

    return enqueue


def _cluster_attributes(ctas: int) -> list[Any]:
    """Return the attributes that Triton's own launcher sets: cluster size, and clusters spread over the card."""
    names = _cuda.CUlaunchAttributeID
    size, policy = _cuda.CUlaunchAttribute(), _cuda.CUlaunchAttribute()
    size.id = names.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    size.value.clusterDim.x, size.value.clusterDim.y, size.value.clusterDim.z = ctas, 1, 1
    policy.id = names.CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE
    spread = _cuda.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD
    policy.value.clusterSchedulingPolicyPreference = spread
    return [size, policy]


def make_stream() -> int:
    """Create a stream that does not wait for the default one."""
    return int(_done(_cuda.cuStreamCreate(_cuda.CUstream_flags.CU_STREAM_NON_BLOCKING)))


def synchronise(stream: int) -> None:
    """Wait until a stream is done.

    Raises:
        DriverError: If work on the card failed.
    """
    _done(_cuda.cuStreamSynchronize(stream))


def reset_persisting_cache() -> None:
    """Make all persisting lines of the L2 cache ordinary ones."""
    _done(_cuda.cuCtxResetPersistingL2Cache())


def make_event() -> Handle:
    """Create an event that records the time."""
    return _done(_cuda.cuEventCreate(_cuda.CUevent_flags.CU_EVENT_DEFAULT))


def record(event: Handle, stream: int) -> None:
    """Enqueue an event."""
    _done(_cuda.cuEventRecord(event, stream))


def elapsed_us(start: Handle, stop: Handle) -> float:
    """Return the microseconds between two completed events."""
    return float(_done(_cuda.cuEventElapsedTime(start, stop))) * 1e3


def capture(stream: int, enqueue: Callable[[int], None]) -> Handle:
    """Capture the work that a function enqueues on a stream. Returns a graph that can be launched.

    Raises:
        DriverError: If the work cannot be captured.
    """
    _done(_cuda.cuStreamBeginCapture(stream, _cuda.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    try:
        enqueue(stream)
    finally:
        graph = _done(_cuda.cuStreamEndCapture(stream))
    executable = _done(_cuda.cuGraphInstantiate(graph, 0))
    _done(_cuda.cuGraphDestroy(graph))
    _done(_cuda.cuGraphUpload(executable, stream))
    return executable


def launch_graph(graph: Handle, stream: int) -> None:
    """Enqueue a graph."""
    _done(_cuda.cuGraphLaunch(graph, stream))


def destroy_graph(graph: Handle) -> None:
    """Destroy a graph."""
    _done(_cuda.cuGraphExecDestroy(graph))


def _text(said: bytes) -> str:
    return said.split(b"\0")[0].decode()


def _done(answer: tuple[Any, ...]) -> Handle:
    """Return the value of a driver call.

    Raises:
        DriverError: If the call failed.
    """
    if answer[0]:
        raise DriverError(answer[0].name)
    return answer[1] if len(answer) > 1 else None


def _module_version() -> str:
    """Return the version of the kernel module; empty if the system does not show it."""
    shown = Path("/proc/driver/nvidia/version")
    found = re.search(r"\b\d{3}\.\d+(\.\d+)?\b", shown.read_text()) if shown.exists() else None
    return found[0] if found else ""
