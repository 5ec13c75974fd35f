"""The launch plan: everything that a candidate does on a device, as data.

Everything that leaves the trace's sandbox may be hostile, so these types enforce the bounds of honest plans: sizes,
counts and offsets are limited here, references are checked by `Plan`, and no field is code.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from math import isfinite, prod
from sys import float_info
from typing import Annotated, Any, Literal, Self

from pydantic import Field, model_validator

from workers.protocol.base import Constant, WireModel
from workers.protocol.operator import DTYPE_BYTES, MAX_INPUTS, DtypeName, Identifier, Shape, ShapeRole
from workers.protocol.toolchain import Toolchain

MAX_STEPS = 4096
"""Maximum number of steps in a plan: a model of 700 layers takes several per layer. Most plans have under 20."""
MAX_BUFFERS = 4096
"""Maximum number of buffers of a plan: the inputs, and one or two results per layer."""
MAX_ARGUMENTS = 512
"""Maximum number of arguments of a launch: as many pointers as 4 KiB of kernel parameters hold (CUDA programming
guide)."""
MAX_BUFFER_BYTES = 32 * 2**30
"""Maximum bytes of one buffer: no operator of the catalogue needs more."""
MAX_PLAN_BYTES = 2 * MAX_BUFFER_BYTES
"""Maximum bytes of all buffers of a plan, and of one launch's scratch memory, checked before allocation."""
MAX_KERNELS = 2048
"""Maximum number of kernels of a bundle: a model has some dozens, each compiled for several kinds of sizes."""
MAX_PLANS = 256
"""Maximum number of plans of a bundle: a finalist's 200 random shapes and those of its search."""
MAX_ASSEMBLY_BYTES = 4 * 2**20
"""Maximum bytes of a kernel's assembly text; Triton's largest attention kernels stay under 1 MiB."""

Bytes = Annotated[int, Field(ge=0, le=MAX_BUFFER_BYTES)]
BufferId = Annotated[int, Field(ge=0, lt=MAX_BUFFERS)]
Grid = Annotated[int, Field(ge=1, le=2**31 - 1)]
Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]

NumberType = Literal["i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64"]
"""Triton's name for the type of a scalar argument."""

_INTEGER_RANGE: dict[str, tuple[int, int]] = {"bool": (0, 1)} | {
    f"{sign}int{bits}": (0, 2**bits - 1) if sign else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    for sign in ("", "u")
    for bits in (8, 16, 32, 64)
}
_FLOAT_MOST = {
    "float16": 65504.0,
    "bfloat16": 3.3895313892515355e38,
    "float32": 3.4028234663852886e38,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}
# Largest finite numbers of the formats (IEEE 754; OCP 8-bit floating point, revision 1.0).
_TYPE_DTYPE = {"i1": "bool", "u1": "bool"} | {
    f"{letter}{bits}": f"{prefix}int{bits}" for letter, prefix in (("i", ""), ("u", "u")) for bits in (8, 16, 32, 64)
}


def is_representable(value: bool | int | float, dtype: str) -> bool:
    """Return True if a number fits a dtype.

    Float dtypes also take infinities, NaN, and whole numbers up to 2^64.
    """
    most = _FLOAT_MOST.get(dtype, float_info.max)
    if isinstance(value, float) and dtype not in _INTEGER_RANGE:
        return not isfinite(value) or abs(value) <= most
    low, high = _INTEGER_RANGE.get(dtype, (-min(most, 2**64), min(most, 2**64)))
    if isinstance(value, float):
        return isfinite(value) and low <= int(value) <= high
    return low <= value <= high


class Buffer(WireModel):
    """A piece of device memory. Inputs come first, in the operator's order; the others are allocated by the plan."""

    id: BufferId
    bytes: Bytes
    input: int | None = Field(default=None, ge=0, lt=MAX_INPUTS)


class View(WireModel):
    """A strided tensor in a buffer: `shape` and `strides` in elements, `offset_bytes` from the buffer's start."""

    buffer: BufferId
    offset_bytes: Bytes = 0
    shape: tuple[Annotated[int, Field(ge=0, le=2**40)], ...] = Field(max_length=8)
    strides: tuple[Annotated[int, Field(ge=0, le=2**40)], ...] = Field(max_length=8)
    dtype: DtypeName

    @property
    def end_bytes(self) -> int:
        """Offset of the first byte after the last element; the view's own offset if it is empty."""
        if 0 in self.shape:
            return self.offset_bytes
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return self.offset_bytes + (last + 1) * DTYPE_BYTES[self.dtype]

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def overlaps_itself(self) -> bool:
        """True if two elements may share memory, as in an expanded tensor."""
        if 0 in self.shape:
            return False
        reach = 0
        for stride, size in sorted(zip(self.strides, self.shape, strict=True)):
            if size > 1 and stride <= reach:
                return True
            reach += (size - 1) * stride
        return False


class Pointer(WireModel):
    """A pointer argument: byte `offset_bytes` of a buffer, of which `extent_bytes` belong to the tensor passed."""

    kind: Literal["pointer"] = "pointer"
    buffer: BufferId
    offset_bytes: Bytes
    extent_bytes: Bytes
    dtype: DtypeName


class Number(WireModel):
    """A scalar argument; `type` is Triton's name, such as `i32` or `fp32`."""

    kind: Literal["number"] = "number"
    type: NumberType
    value: bool | int | float

    @model_validator(mode="after")
    def _fits(self) -> Self:
        dtype = _TYPE_DTYPE.get(self.type, "float64")
        if not is_representable(self.value, dtype) or (dtype != "float64" and isinstance(self.value, float)):
            raise ValueError(f"{self.value!r:.40} does not fit a parameter of type {self.type}")
        return self


MAX_RANK = 5
"""Maximum dimensions of a tensor descriptor (CUDA driver API, `cuTensorMapEncodeTiled`)."""
DESCRIPTOR_GRANULE_BYTES = 16
"""Alignment of a descriptor's address, strides and box; the same source."""
MAP_ELEMENT_BYTES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 8, 9: 2, 10: 4, 11: 4, 12: 4}
"""Size of an element by its number in the driver's API (`CUtensorMapDataType`); from 6 on they are floats."""
_FIRST_FLOAT = 6


class TensorMap(WireModel):
    """Encoding of a descriptor for the copy engine, as its kernel expects it: a tiled `CUtensorMap`.

    `box` is the part that one copy moves, innermost dimension last. It may be smaller than the descriptor's block.
    `element` and `swizzle` are numbers of the driver's API.
    """

    element: Annotated[int, Field(ge=0, le=12)]
    box: tuple[Annotated[int, Field(ge=1, le=256)], ...] = Field(min_length=1, max_length=MAX_RANK)
    swizzle: Annotated[int, Field(ge=0, le=3)] = 0

    @model_validator(mode="after")
    def _encodable(self) -> Self:
        width = self.box[-1] * MAP_ELEMENT_BYTES[self.element]
        if width % DESCRIPTOR_GRANULE_BYTES:
            raise ValueError(f"a box of a tensor map is {width} bytes wide, no multiple of {DESCRIPTOR_GRANULE_BYTES}")
        if self.swizzle and width > 16 << self.swizzle:
            raise ValueError(
                f"a box of a tensor map is {width} bytes wide, more than its swizzle of {16 << self.swizzle}"
            )
        return self


class HostDescriptor(WireModel):
    """A host-side tensor descriptor: one argument of the jit function, several parameters of its kernel.

    `shape`, `strides` and `block` are in elements. `map` is None if the kernel was compiled without the copy engine.
    `tf32` asks copies to round float32; it is None if the Triton that traced the plan has no such flag. `layout` is
    Gluon's text for it. It explains the plan and is not part of its identity.
    """

    kind: Literal["descriptor"] = "descriptor"
    buffer: BufferId
    offset_bytes: Bytes
    dtype: DtypeName
    shape: tuple[Annotated[int, Field(ge=1, lt=2**31)], ...] = Field(min_length=1, max_length=MAX_RANK)
    strides: tuple[Annotated[int, Field(ge=0, lt=2**40)], ...] = Field(min_length=1, max_length=MAX_RANK)
    block: tuple[Annotated[int, Field(ge=1, le=2**20)], ...] = Field(min_length=1, max_length=MAX_RANK)
    nan_fill: bool = False
    tf32: bool | None = None
    layout: Annotated[str, Field(max_length=512)] | None = None
    map: TensorMap | None = None

    @model_validator(mode="after")
    def _addressable(self) -> Self:
        if not len(self.shape) == len(self.strides) == len(self.block):
            raise ValueError("a descriptor needs one size, stride and block per dimension")
        size = DTYPE_BYTES[self.dtype]
        steps = [self.offset_bytes, *(stride * size for stride in self.strides[:-1])]
        if self.strides[-1] != 1 or any(step % DESCRIPTOR_GRANULE_BYTES for step in steps):
            raise ValueError(
                f"a descriptor's address and strides must be multiples of {DESCRIPTOR_GRANULE_BYTES} bytes, and its "
                "last dimension contiguous"
            )
        if max(steps[1:], default=0) >= 2**40:
            raise ValueError("a stride of a descriptor is 2**40 bytes or more")
        if self.map is not None:
            floating = self.dtype not in _INTEGER_RANGE and size > 1
            if len(self.map.box) != len(self.shape) or MAP_ELEMENT_BYTES[self.map.element] != size:
                raise ValueError("a tensor map is not of its descriptor's rank or element size")
            if (self.map.element >= _FIRST_FLOAT) != floating or (self.nan_fill and not floating):
                raise ValueError(f"a tensor map of {self.dtype} has elements of another kind")
        return self

    @property
    def extent_bytes(self) -> int:
        """Bytes from the first element to the end of the last: the part of the buffer that copies may touch."""
        last = sum((size - 1) * stride for size, stride in zip(self.shape, self.strides, strict=True))
        return (last + 1) * DTYPE_BYTES[self.dtype]

    def parameters(self) -> tuple["Pointer | Number | TensorMap", ...]:
        """Return the values of the kernel's parameters that stand for it, in the order of Triton's launcher."""
        sizes = tuple(Number(type="i32", value=size) for size in self.shape)
        strides = tuple(Number(type="i64", value=stride) for stride in self.strides)
        if self.map is not None:
            return (self.map, *sizes, *strides)
        extent = self.extent_bytes
        pointer = Pointer(buffer=self.buffer, offset_bytes=self.offset_bytes, extent_bytes=extent, dtype=self.dtype)
        wide = tuple(Number(type="i64", value=size) for size in self.shape)
        flags = tuple(Number(type="i1", value=flag) for flag in (self.nan_fill, self.tf32) if flag is not None)
        return (pointer, *wide, *strides, *flags, *sizes, *strides)


Argument = Annotated[Pointer | Number | HostDescriptor, Field(discriminator="kind")]


class Allocate(WireModel):
    """Allocate a buffer; its content is undefined, and poisoned when a kernel is judged."""

    op: Literal["allocate"] = "allocate"
    buffer: BufferId


class Fill(WireModel):
    """Set every element of a view to one value."""

    op: Literal["fill"] = "fill"
    target: View
    value: bool | int | float

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if not is_representable(self.value, self.target.dtype):
            raise ValueError(f"{self.value!r:.40} does not fit {self.target.dtype}")
        return self


class Copy(WireModel):
    """Copy a view to another of the same shape, converting the dtype."""

    op: Literal["copy"] = "copy"
    source: View
    target: View


Parameter = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[0-9]{1,3}){0,4}$", max_length=80)]
"""A parameter of a jit function, such as `x`, or a part of one that takes a tuple, such as `pointers.0`."""


LaunchOptions = Annotated[dict[Identifier, int | None], Field(max_length=8)]
"""Options of a launch, such as `num_warps`, as they were given. Specialised warps come on top of `num_warps`."""


def spread(name: str, value: object) -> Iterator[tuple[str, object]]:
    """Yield a parameter's value; of a tuple each part, by its own name."""
    if not isinstance(value, tuple):
        yield name, value
        return
    for number, part in enumerate(value):
        yield from spread(f"{name}.{number}", part)


def gathered(parts: Mapping[str, object]) -> dict[str, object]:
    """Return the values of parameters from those of their parts, the inverse of `spread`.

    Raises:
        ValueError: If a parameter is both a tuple and none, or a tuple lacks a part.
    """
    found: dict[str, object] = {}
    inner: dict[str, dict[str, object]] = {}
    for name, value in parts.items():
        outer, _, rest = name.partition(".")
        if rest:
            inner.setdefault(outer, {})[rest] = value
        else:
            found[outer] = value
    for outer, values in inner.items():
        made = gathered(values)
        if outer in found or made.keys() != {str(number) for number in range(len(made))}:
            raise ValueError(f"the parts of '{outer}' are no tuple: {', '.join(values)}")
        found[outer] = tuple(made[str(number)] for number in range(len(made)))
    return found


class Launch(WireModel):
    """Start a kernel.

    `arguments` are the kernel's arguments, in order, without Triton's two scratch pointers. `function`, `constants` and
    `parameters` describe the launched jit function, and `options` are the launch options that were given. They explain
    the plan and drive the interpreter and exports, but are not part of its identity. Tuples are spread: each part has a
    name of its own.
    """

    op: Literal["launch"] = "launch"
    kernel: Digest
    grid: tuple[Grid, Grid, Grid]
    arguments: tuple[Argument, ...] = Field(max_length=MAX_ARGUMENTS)
    function: Annotated[str, Field(max_length=256)]
    parameters: tuple[Parameter, ...] = ()
    constants: dict[Parameter, Constant] = {}
    options: LaunchOptions = {}
    line: int | None = None

    @property
    def memory(self) -> tuple[Pointer | HostDescriptor, ...]:
        """Arguments that name memory, in order."""
        # By their tags: testing the class of a pydantic model takes ten times as long.
        return tuple(argument for argument in self.arguments if argument.kind != "number")


Step = Annotated[Allocate | Fill | Copy | Launch, Field(discriminator="op")]


def _buffers_of(step: Fill | Copy | Launch) -> set[int]:
    if step.op == "launch":
        return {argument.buffer for argument in step.memory}
    return {step.target.buffer} | ({step.source.buffer} if step.op == "copy" else set())


_EXPLAINING: dict[str, Any] = {
    "shape": True,
    "steps": {
        "__all__": dict.fromkeys(("function", "parameters", "constants", "options", "line"), True)
        | {"arguments": {"__all__": {"layout"}}}
    },
}
# Fields of a plan that are not part of its identity.
_NOT_LAUNCHED = {"assembly", "num_stages", "max_registers"}
# Fields of a kernel that its machine code determines: not part of a plan's identity.


class Kernel(WireModel):
    """One compiled kernel: assembly text under the canonical entry name `kernel`, and its launch attributes."""

    language: Literal["ptx", "amdgcn"]
    assembly: Annotated[str, Field(max_length=MAX_ASSEMBLY_BYTES)]
    target: str
    num_warps: Annotated[int, Field(ge=1, le=32)]
    num_ctas: Annotated[int, Field(ge=1, le=16)] = 1
    num_stages: Annotated[int, Field(ge=0, le=64)] = 0
    shared_bytes: Annotated[int, Field(ge=0, le=2**20)] = 0
    max_registers: Annotated[int, Field(ge=8, le=512)] | None = None
    global_scratch_bytes: Annotated[int, Field(ge=0, le=2**20)] = 0
    global_scratch_align: Annotated[int, Field(ge=1, le=4096)] = 1
    profile_scratch_bytes: Annotated[int, Field(ge=0, le=2**20)] = 0

    @property
    def digest(self) -> str:
        """SHA-256 of the kernel as traced; its key in launches."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()


class Plan(WireModel):
    """The work of a candidate at one shape: buffers, ordered steps, and the views that are its results."""

    shape: Shape
    buffers: tuple[Buffer, ...] = Field(max_length=MAX_BUFFERS)
    steps: tuple[Step, ...] = Field(max_length=MAX_STEPS)
    outputs: tuple[View, ...] = Field(max_length=16)

    @model_validator(mode="after")
    def _references_hold(self) -> Self:
        sizes = [buffer.bytes for buffer in self.buffers]
        if [buffer.id for buffer in self.buffers] != list(range(len(sizes))):
            raise ValueError("buffers must be numbered 0, 1, 2, ... without gaps")
        if sum(sizes) > MAX_PLAN_BYTES:
            raise ValueError(f"the buffers take {sum(sizes)} bytes, more than {MAX_PLAN_BYTES}")
        for view in self._views():
            if view.buffer >= len(sizes) or len(view.shape) != len(view.strides):
                raise ValueError(f"a view names buffer {view.buffer} with {len(view.strides)} strides: no such tensor")
            if view.end_bytes > sizes[view.buffer]:
                raise ValueError(f"a view ends at byte {view.end_bytes} of buffer {view.buffer}, beyond its end")
        for pointer in self._pointers():
            if pointer.buffer >= len(sizes) or pointer.offset_bytes + pointer.extent_bytes > sizes[pointer.buffer]:
                raise ValueError(f"a {pointer.kind} leaves buffer {pointer.buffer}")
        return self

    @model_validator(mode="after")
    def _memory_exists(self) -> Self:
        inputs = [buffer.input for buffer in self.buffers if buffer.input is not None]
        if [buffer.input for buffer in self.buffers[: len(inputs)]] != list(range(len(inputs))):
            raise ValueError("the inputs' buffers must come first, in the operator's order")
        made = set(range(len(inputs)))
        for step in self.steps:
            if step.op == "allocate":
                if step.buffer in made or step.buffer >= len(self.buffers):
                    raise ValueError(f"buffer {step.buffer} is allocated twice, is an input or does not exist")
                made.add(step.buffer)
            elif not made.issuperset(_buffers_of(step)):
                raise ValueError(f"a step uses one of the buffers {_buffers_of(step)} before it is allocated")
        if not made.issuperset(view.buffer for view in self.outputs):
            raise ValueError("an output lies in a buffer that is never allocated")
        return self

    @model_validator(mode="after")
    def _writes_are_plain(self) -> Self:
        for step in self.steps:
            if (step.op == "fill" or step.op == "copy") and step.target.overlaps_itself:
                raise ValueError("a fill or copy writes to a view whose elements share memory")
            if step.op == "copy" and step.source.shape != step.target.shape:
                raise ValueError(f"a copy goes from shape {step.source.shape} to {step.target.shape}")
        return self

    def _views(self) -> list[View]:
        views = list(self.outputs)
        for step in self.steps:
            if step.op == "fill":
                views.append(step.target)
            elif step.op == "copy":
                views += [step.source, step.target]
        return views

    def _pointers(self) -> list[Pointer | HostDescriptor]:
        return [item for launch in self.launches for item in launch.memory]

    @property
    def overwritten(self) -> frozenset[int]:
        """Numbers of the inputs whose memory is an output."""
        inputs = (self.buffers[view.buffer].input for view in self.outputs)
        return frozenset(number for number in inputs if number is not None)

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The plan's launch steps, in order."""
        return tuple(step for step in self.steps if step.op == "launch")


class Bundle(WireModel):
    """A variant's plans over all shapes, with every kernel they launch.

    `configuration` holds the autotune choice that made this variant (empty without autotune). `cubins` maps each
    kernel's digest to the SHA-256 of its machine code, filled in by the assembler; with it the bundle has an identity.
    `toolchain` has compiled the kernels and assembles them; None is the host's own. The identity has it only by its
    machine code, so bundles of older releases, which named none, keep theirs.
    A bundle from a recording has neither kernels nor steps: `recorded` is the identity of the recorded bundle.
    """

    target: str
    operator: Digest
    configuration: dict[str, Constant] = {}
    kernels: dict[Digest, Kernel] = Field(max_length=MAX_KERNELS)
    plans: tuple[Plan, ...] = Field(min_length=1, max_length=MAX_PLANS)
    cubins: dict[Digest, Digest] = {}
    toolchain: Toolchain | None = None
    recorded: Digest | None = None

    @model_validator(mode="after")
    def _kernels_present(self) -> Self:
        for digest, kernel in self.kernels.items():
            if digest != kernel.digest:
                raise ValueError(f"kernel {digest[:12]} is not what its name says")
        for plan in self.plans:
            for launch in plan.launches:
                if launch.kernel not in self.kernels:
                    raise ValueError(f"a launch names kernel {launch.kernel[:12]}, which the bundle does not hold")
                if self._scratch_bytes(launch) > MAX_PLAN_BYTES:
                    raise ValueError(
                        f"a launch of kernel {launch.kernel[:12]} takes {self._scratch_bytes(launch)} bytes of scratch"
                    )
        return self

    @property
    def benchmarks(self) -> tuple[Plan, ...]:
        """The plans that are timed."""
        return tuple(plan for plan in self.plans if plan.shape.role is ShapeRole.BENCHMARK)

    def restricted(self, plans: Sequence[Plan]) -> "Bundle":
        """Return a bundle of some of the plans, with the kernels that they launch.

        Raises:
            ValueError: If `plans` is empty.
        """
        launched = {launch.kernel for plan in plans for launch in plan.launches}
        return Bundle(
            target=self.target,
            operator=self.operator,
            configuration=self.configuration,
            kernels={digest: kernel for digest, kernel in self.kernels.items() if digest in launched},
            plans=tuple(plans),
            cubins={digest: code for digest, code in self.cubins.items() if digest in launched},
            toolchain=self.toolchain,
        )

    def reduced(self) -> "Bundle":
        """Return a bundle of the benchmark plans alone, as a pacer has.

        Raises:
            ValueError: If no plan is for a benchmark shape.
        """
        return self.restricted(self.benchmarks)

    def _scratch_bytes(self, launch: Launch) -> int:
        kernel = self.kernels[launch.kernel]
        share = kernel.global_scratch_bytes + kernel.profile_scratch_bytes
        return share * prod(launch.grid) * kernel.num_ctas

    @property
    def identity(self) -> str:
        """SHA-256 of the plans' steps with machine code in place of kernels.

        Raises:
            ValueError: If a kernel is not assembled yet.
        """
        missing = [digest for digest in self.kernels if digest not in self.cubins]
        if missing:
            raise ValueError(f"{len(missing)} kernels are not assembled yet")
        kernels = {
            digest: [self.cubins[digest], kernel.model_dump(mode="json", exclude=_NOT_LAUNCHED)]
            for digest, kernel in self.kernels.items()
        }
        body = [self.target, self.operator, *(_plan_identity(plan, kernels) for plan in self.plans)]
        if self.recorded is not None:
            body.append(self.recorded)
        return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _plan_identity(plan: Plan, kernels: Mapping[str, object]) -> object:
    """Return a plan with machine code in place of its kernels, without fields that only explain it."""
    told = plan.model_dump(mode="json", exclude=_EXPLAINING)
    for step in told["steps"]:
        if step["op"] == "launch":
            step["kernel"] = kernels[step["kernel"]]
    return [plan.shape.key, told["buffers"], told["steps"], told["outputs"]]
