"""Launches: while tracing, `kernel[grid](…)` compiles the kernel and becomes a step of the plan."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import ModuleType
from typing import Any, SupportsIndex, cast

import torch
import triton.language as tl
from pydantic import ValidationError
from triton.experimental.gluon.language._layouts import DistributedLayout, SharedLayout
from triton.experimental.gluon.language.nvidia.blackwell import TensorMemoryLayout
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor as GluonDescriptor
from triton.runtime.jit import JITCallable, JITFunction, TensorWrapper
from triton.tools.tensor_descriptor import TensorDescriptor

from workers.protocol import DTYPE_BYTES, HostDescriptor, Kernel, Launch, Number, Outcome, Pointer, Stage, TensorMap
from workers.protocol.plan import spread
from workers.protocol.tags import escaped, tagged
from workers.tracer.compiler import Compiled
from workers.tracer.recorder import PlanRecorder, is_address, on_device
from workers.tracer.refusal import TraceRefused, describe, running_line
from workers.tracer.sizes import plain
from workers.tracer.symbolic_recorder import DESCRIPTORS, SymbolicRecorder

FUSION = "enable_fp_fusion"
"""Launch option: False keeps products and sums apart, True lets them become one rounding; not given, it is True."""
OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", FUSION)
"""Launch options that a plan carries."""
UNUSED = ("launch_pdl", "launch_cooperative_grid")
"""Launch options that a plan does not carry, and that may be given as False."""

_MAX_GRID = 2**31 - 1
# Maximum programs along an axis on any target; the assembler knows the limits of each target.
_TRITON_DTYPES = {"fp8e5": "float8_e5m2", "fp8e4nv": "float8_e4m3fn", "bf16": "bfloat16", "int1": "bool"} | {
    f"{short}{bits}": f"{long}{bits}"
    for short, long in (("fp", "float"), ("int", "int"))
    for bits in (8, 16, 32, 64)
    if f"{long}{bits}" in DTYPE_BYTES
}
# Plan dtypes by Triton's names, for tensors that `triton.reinterpret` renames.
_TF32_ELEMENT = 11
# A descriptor's float32 elements that copies round to TF32 (CUDA driver API, `CUtensorMapDataType`).

Grid = tuple[int, int, int]


@dataclass
class EntryCall:
    """One call of the entry, as launches see it.

    Attributes:
        recorder: Receives the steps.
        kernels: Kernels compiled so far, by digest.
        compiles: True if launches compile and record; otherwise they only reveal which kernels are autotuned.
    """

    recorder: PlanRecorder
    kernels: dict[str, Kernel]
    compiles: bool


class _Argument:
    """A tensor as Triton's specialisation sees it: a dtype and an address."""

    def __init__(self, tensor: torch.Tensor, dtype: object, address: int) -> None:
        self.tensor = tensor
        self.dtype = dtype
        self._address = address
        self.storage_bytes = tensor.untyped_storage().nbytes()

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        """Return the bytes that offsets from the pointer may reach; AMD's buffer operations need them below 2 GiB."""
        return self.storage_bytes


class LaunchInterceptor:
    """Replacement for the launches of jit functions.

    Attributes:
        session: The call of the entry that is being traced; None while the candidate's module loads.
        namespace: The candidate's globals, which give jit functions their names.
    """

    def __init__(self) -> None:
        self.session: EntryCall | None = None
        self.namespace: Mapping[str, object] = {}
        self._specialise: Callable[..., Any] = JITFunction.run

    def install(self) -> None:
        """Replace all further launches."""
        launches = self

        def run(function: JITFunction, *args: object, grid: object, warmup: bool, **kwargs: object) -> None:
            launches._launch(function, args, grid, warmup, kwargs)

        JITFunction.run = run

    def _launch(
        self, function: JITFunction, args: Sequence[object], grid: object, warmup: bool, kwargs: dict[str, Any]
    ) -> None:
        session = self.session
        if session is None:
            raise TraceRefused(
                Outcome.UNSUPPORTED_LAUNCH, "launches a kernel while the module loads: launch in the entry"
            )
        for name in UNUSED:
            if kwargs.get(name) is False and name not in function.arg_names:
                del kwargs[name]
        _require_plain(function, warmup, kwargs)
        given = [name for name in OPTIONS if name in kwargs and name not in function.arg_names]
        options = {name: _option(name, plain(kwargs.pop(name))) for name in given}
        bound = function.signature.bind(*args, **kwargs)
        bound.apply_defaults()
        sizes = _grid_sizes(grid, bound.arguments)
        if isinstance(session.recorder, SymbolicRecorder):
            session.recorder.launch(function, sizes, bound.arguments, options, self)
            return
        programs = _grid(sizes)
        if 0 in programs:
            return
        values = {name: _wrap(value, session.recorder) for name, value in bound.arguments.items()}
        if session.compiles:
            compiled = self._compile(function, programs, {**values, **options, **fusion(function, options)})
            session.kernels[compiled.digest] = compiled.kernel
            session.recorder.add(self._step(function, compiled, programs, values, options))

    def _compile(self, function: JITFunction, grid: Grid, arguments: Mapping[str, object]) -> Compiled:
        """Let Triton specialise and compile, unless it did so before for equal arguments."""
        try:
            return cast(Compiled, self._specialise(function, grid=grid, warmup=True, **arguments))
        except (AssertionError, ValueError, KeyError) as error:
            reason = f"Triton refuses the options of the launch: {describe(error)}"
            raise TraceRefused(Outcome.COMPILE_ERROR, reason, Stage.COMPILE) from error

    def _step(
        self,
        function: JITFunction,
        compiled: Compiled,
        grid: Grid,
        values: Mapping[str, object],
        options: Mapping[str, int | None],
    ) -> Launch:
        recorder = self.session.recorder if self.session else None
        assert recorder is not None
        constants: dict[str, bool | int | float | str | None] = {}
        arguments: dict[str, Pointer | Number | HostDescriptor] = {}
        maps = iter(compiled.maps)
        for name, kind, value in _parts(function, compiled.source.signature, values):
            if kind == "constexpr":
                constants[name] = self.constant(name, value)
            else:
                arguments[name] = _argument(name, kind, value, recorder, maps)
        return Launch(
            kernel=compiled.digest,
            grid=grid,
            arguments=tuple(arguments.values()),
            function=self.name_of(function),
            parameters=tuple(arguments),
            constants=constants,
            options=options,
            line=running_line(),
        )

    def constant(self, name: str, value: object) -> bool | int | float | str | None:
        """Return a compile-time value as data; dtypes, layouts and jit functions become tagged strings."""
        value = value.value if isinstance(value, tl.constexpr) else value
        if isinstance(value, str):
            return escaped(value)
        if isinstance(value, bool | int | float | None):
            return value
        if isinstance(value, tl.dtype):
            return tagged("dtype", value.name)
        if isinstance(value, torch.dtype):
            return tagged("torch", f"{value}".removeprefix("torch."))
        if isinstance(value, JITCallable):
            return tagged("function", self.name_of(value))
        if isinstance(value, DistributedLayout | SharedLayout | TensorMemoryLayout):
            return tagged("layout", repr(value))
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH,
            f"constexpr argument '{name}' is a {_kind(value)}: pass numbers, strings, dtypes, layouts or jit functions",
        )

    def name_of(self, function: JITCallable) -> str:
        """Return the global name of a jit function in the candidate's module, decorated or not."""
        for name, value in self.namespace.items():
            # Not of modules: the candidate's `os` refuses to be asked.
            while not isinstance(value, JITCallable | ModuleType) and hasattr(value, "fn"):
                value = value.fn
            if value is function:
                return name
        return str(function.fn.__qualname__)


def fusion(function: JITFunction, options: Mapping[str, int | None]) -> dict[str, bool]:
    """Return the option of a launch that decides about fused products and sums; Triton's defaults differ by release."""
    return {} if FUSION in function.arg_names else {FUSION: options.get(FUSION) not in (0, False)}


def _require_plain(function: JITFunction, warmup: bool, kwargs: Mapping[str, object]) -> None:
    if warmup:
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH,
            "calls warmup, but registers are unknown while tracing: size the grid by the number of multiprocessors",
        )
    if function.debug or function.pre_run_hooks:
        raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, "uses debug=True or a pre-run hook: launch a plain @triton.jit")
    unknown = [name for name in kwargs if name not in function.arg_names and name not in OPTIONS]
    if unknown:
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH,
            f"passes '{unknown[0]}', which is neither a parameter of {function.__name__} nor a supported launch "
            f"option: {', '.join(OPTIONS)}",
        )


def _option(name: str, value: object) -> int | None:
    if value is not None and not isinstance(value, SupportsIndex):
        raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"passes {name}={value!r:.40}: it must be a whole number")
    return None if value is None else operator.index(value)


def _grid_sizes(grid: object, arguments: Mapping[str, object]) -> list[object]:
    """Return the sizes of a grid given as a tuple or as a function of the kernel's arguments."""
    given = grid(dict(arguments)) if callable(grid) else grid
    sizes = list(given) if isinstance(given, Sequence) else [given]
    if not 1 <= len(sizes) <= 3:
        raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"the grid has {len(sizes)} dimensions; it may have 1 to 3")
    return sizes + [1] * (3 - len(sizes))


def _grid(given: Sequence[object]) -> Grid:
    sizes = [_grid_size(size) for size in given]
    for size, axis in zip(sizes, "xyz", strict=True):
        if not 0 <= size <= _MAX_GRID:
            raise TraceRefused(
                Outcome.UNSUPPORTED_LAUNCH, f"the grid's size along {axis} is {size}; at most {_MAX_GRID}"
            )
    return sizes[0], sizes[1], sizes[2]


def _grid_size(size: object) -> int:
    if not isinstance(size, SupportsIndex):
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH, f"a size of the grid is {size!r}: it must be an integer; use triton.cdiv"
        )
    return operator.index(size)


def _parts(
    function: JITFunction, signature: Mapping[str, Any], values: Mapping[str, object]
) -> Iterator[tuple[str, str, object]]:
    """Yield the name, Triton's type and the value of each parameter; of a tuple those of each part."""
    for parameter in function.arg_names:
        kinds = dict(spread(parameter, signature[parameter]))
        for name, value in spread(parameter, values[parameter]):
            yield name, str(kinds.get(name, "constexpr")), value


def _wrap(value: object, recorder: PlanRecorder) -> object:
    """Return a launch argument in the form that Triton's specialisation receives."""
    if isinstance(value, torch.Tensor):
        value = on_device(value)
        return _Argument(value, value.dtype, recorder.address_of(value))
    if isinstance(value, TensorWrapper):
        return _Argument(value.base, value.dtype, recorder.address_of(value.base))
    if type(value) in DESCRIPTORS:
        return replace(cast(Any, value), base=_wrap(cast(Any, value).base, recorder))
    if hasattr(value, "data_ptr") or isinstance(value, DESCRIPTORS) or type(value).__name__.startswith("TensorDesc"):
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH, f"passes a {type(value).__name__}: pass the tensor, or its TensorDescriptor"
        )
    if type(value) in (tuple, torch.Size) and value:
        return tuple(_wrap(part, recorder) for part in cast(tuple[object, ...], value))
    if isinstance(value, tuple | list):
        what = f"{'a' if value else 'an empty'} {'list' if isinstance(value, list) else 'tuple'}"
        kind = "" if not value or type(value) is list else f" of the class {type(value).__name__}"
        raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, f"passes {what}{kind}: pass a plain tuple, or its elements")
    if isinstance(value, int) and not isinstance(value, bool) and is_address(value):
        raise TraceRefused(Outcome.UNSUPPORTED_LAUNCH, "passes an address as an integer: pass the tensor itself")
    return value


def _argument(
    name: str, kind: str, value: object, recorder: PlanRecorder, maps: Iterator[TensorMap]
) -> Pointer | Number | HostDescriptor:
    if isinstance(value, _Argument):
        return _pointer(value, recorder)
    if isinstance(value, DESCRIPTORS) and kind.startswith("tensordesc<"):
        return _descriptor(name, value, recorder, next(maps, None))
    if kind.startswith("*") or not isinstance(value, bool | int | float):
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH, f"argument '{name}' is a {_kind(value)} where the kernel has '{kind}'"
        )
    return Number(type=kind, value=value)


def _pointer(value: _Argument, recorder: PlanRecorder) -> Pointer:
    pointer = recorder.pointer(value.tensor)
    return pointer.model_copy(update={"dtype": _renamed(value.dtype)}) if isinstance(value.dtype, tl.dtype) else pointer


def _descriptor(
    name: str, value: TensorDescriptor | GluonDescriptor, recorder: PlanRecorder, map: TensorMap | None
) -> HostDescriptor:
    """Return a host-side descriptor as data.

    Raises:
        TraceRefused: `plan_rejected` if no copy engine could use it.
    """
    place = _pointer(value.base, recorder)
    tf32 = getattr(value, "round_f32_to_tf32", None)  # Triton 3.6 does not have it.
    if map is not None and tf32:
        map = map.model_copy(update={"element": _TF32_ELEMENT})
    try:
        found = HostDescriptor(
            buffer=place.buffer,
            offset_bytes=place.offset_bytes,
            dtype=place.dtype,
            shape=tuple(operator.index(size) for size in value.shape),
            strides=tuple(operator.index(stride) for stride in value.strides),
            block=tuple(operator.index(size) for size in value.block_shape),
            nan_fill=value.padding == "nan",
            tf32=None if tf32 is None else bool(tf32),
            layout=repr(value.layout) if isinstance(value, GluonDescriptor) else None,
            map=map,
        )
    except (ValidationError, TypeError) as error:
        said = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        reason = f"descriptor '{name}': {said.removeprefix('Value error, ')}"
        raise TraceRefused(Outcome.PLAN_REJECTED, reason) from None
    end, memory = found.offset_bytes + found.extent_bytes, value.base.storage_bytes
    if end > memory:
        reason = f"descriptor '{name}' ends at byte {end} of its tensor's memory, which has {memory}"
        raise TraceRefused(Outcome.PLAN_REJECTED, reason)
    return found


def _kind(value: object) -> str:
    return "tensor" if isinstance(value, _Argument) else type(value).__name__


def _renamed(dtype: tl.dtype) -> str:
    if dtype.name not in _TRITON_DTYPES:
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH, f"reinterprets a tensor as {dtype.name}, which plans do not support"
        )
    return _TRITON_DTYPES[dtype.name]
