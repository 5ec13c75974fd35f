"""The operator: the function to compute, and the rules for judging it.

This is the validated form of an operator spec, with sources inline. Files are read by `service.operators.catalogue`.
"""

import hashlib
import keyword
import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from math import prod
from typing import Annotated, Literal, Self, TypeVar

from pydantic import Field, ValidationInfo, field_validator, model_validator

from workers.protocol.base import WireModel
from workers.protocol.distribution import ORDERED, Bounds, Distribution, impossible, misfit
from workers.protocol.extent import Extent, ExtentFormula, names_in, size_of

MAX_INPUTS = 704
"""Maximum number of inputs of an operator, weights included. The largest model of KernelBench has 315, and those with
twice as many layers have twice as many."""
MAX_SOURCE_BYTES = 2**20
"""Maximum bytes of a candidate's source. Published kernel files have under 100 KB; for a network of 200 convolutions
TorchInductor writes 930 KB."""
FAR = 2**31
"""Number of elements that a signed 32-bit index cannot address any more."""
DTYPE_BYTES = {
    "bool": 1,
    "int8": 1,
    "uint8": 1,
    "int16": 2,
    "int32": 4,
    "int64": 8,
    "float16": 2,
    "bfloat16": 2,
    "float32": 4,
    "float64": 8,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""Bytes per element by torch's name of the dtype. Other dtypes are not allowed."""

DtypeName = Literal[
    "bool",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "float8_e4m3fn",
    "float8_e5m2",
]


def is_float(dtype: DtypeName) -> bool:
    """Return True if values of a dtype have gradients."""
    return "float" in dtype


NARROW_DTYPE = re.compile(r"\bu?int8|\bfloat[84]_")
"""A dtype of 8 bits or fewer, as a reference may name one."""
SourceText = Annotated[str, Field(min_length=1, max_length=MAX_SOURCE_BYTES)]
Identifier = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$", max_length=64)]
Size = Annotated[int, Field(ge=0, le=2**31 - 1)]
"""Size of a dimension; 0 makes tensors empty, or an optional input absent."""
Finite = Annotated[float, Field(allow_inf_nan=False)]
Present = TypeVar("Present")
"""Kind of tensor that a call takes."""


class Input(WireModel):
    """One tensor argument. `shape` names dimensions or gives sizes; `low` and `high` bound uniform and integer draws.

    For integers `high` may be an extent, whose size is then the exclusive upper end, or the inclusive one of segments.
    A `mutable` input may be written to: its content afterwards is the output of its name, or else must be as before,
    unless an output lies in its memory. `gradient` is True if an operator with `backward` returns its gradient;
    integers have none. An `optional` input is None where the dimension of its name is 0. Some integers are the
    `marker`, which lies outside of the bounds.
    """

    name: Identifier
    shape: tuple[Extent, ...] = Field(max_length=8)
    dtype: DtypeName
    distribution: Distribution | None = None
    low: Finite | None = None
    high: Finite | ExtentFormula | None = None
    layouts: tuple[Literal["contiguous"], ...] = ("contiguous",)
    constant: bool = False
    mutable: bool = False
    gradient: bool = True
    optional: bool = Field(default=False, exclude_if=lambda optional: not optional)
    marker: Annotated[int, Field(strict=True)] | None = Field(default=None, exclude_if=lambda marker: marker is None)

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.distribution in ORDERED:
            fault = misfit(self.distribution, self.dtype, self.shape, self.low, self.high)
            if fault is not None:
                raise ValueError(fault)
        return self

    @model_validator(mode="after")
    def _drawable(self) -> Self:
        integer = self.dtype.startswith(("int", "uint", "bool"))
        if self.distribution is Distribution.INTEGER and not integer:
            raise ValueError(f"distribution 'integer' needs an integer dtype, not {self.dtype}")
        if integer and self.dtype != "bool" and self.high is None:
            raise ValueError("integer inputs need 'high': the exclusive upper end, a number or a dimension's name")
        if isinstance(self.low, float) and isinstance(self.high, float) and self.low >= self.high:
            raise ValueError(f"'low' ({self.low:g}) must be less than 'high' ({self.high:g})")
        if fault := _misfit_of_marker(self):
            raise ValueError(fault)
        return self


def _misfit_of_marker(item: "Input") -> str | None:
    """Return the reason why an input cannot have its marker; None if it can."""
    if item.marker is None:
        return None
    bits = re.fullmatch(r"(u?)int(\d+)", item.dtype)
    if bits is None:
        return f"'marker' is for integers, not for {item.dtype}"
    least = 0 if bits[1] else -(2 ** (int(bits[2]) - 1))
    if not least <= item.marker < least + 2 ** int(bits[2]):
        return f"'marker' ({item.marker}) is no {item.dtype}"
    if item.distribution in ORDERED and item.distribution is not Distribution.UNIQUE:
        return "'marker' is for integers without an order, and for different ones"
    if item.marker >= int(item.low or 0) and (not isinstance(item.high, float) or item.marker < item.high):
        return f"'marker' ({item.marker}) must lie outside of the values from 'low' to 'high'"
    return None


def without_values(item: Input, bounds: Bounds) -> str | None:
    """Return the reason why an integer input has no values at some sizes within bounds; None if it always has."""
    if not isinstance(item.high, str | float) or is_float(item.dtype):
        return None
    high = item.high if isinstance(item.high, str) else int(item.high)
    if item.distribution in ORDERED:
        return impossible(item.distribution, item.shape[-1], int(item.low or 0), high, bounds)
    dims = {name: ends[1] for name, ends in bounds.items()} | {name: bounds[name][0] for name in names_in(high)}
    if dims and size_of(high, dims) == 0 and isinstance(high, str) and all(size_of(each, dims) for each in item.shape):
        return f"there is no index below {high} where that is 0: let its range start at 1"
    return None


class Output(WireModel):
    """One result. Its shape is the reference's; `shape` gives it in advance, which gradients need.

    An output with the name of a mutable input is that input's content after the call.
    """

    name: Identifier
    dtype: DtypeName
    shape: Annotated[tuple[Extent, ...], Field(max_length=8)] | None = None


class Scalar(WireModel):
    """A Python number passed after the inputs. An `int` may be an extent, whose size is then its value."""

    name: Identifier
    dtype: Literal["int", "float", "bool"]
    value: bool | int | float | ExtentFormula

    @field_validator("value")
    @classmethod
    def _of_dtype(cls, value: bool | int | float | str, info: ValidationInfo) -> bool | int | float | str:
        dtype = info.data.get("dtype", type(value).__name__)
        if dtype == "float" and type(value) is int:
            return float(value)
        if dtype == "int" and isinstance(value, str):
            return value
        if type(value).__name__ != dtype:
            raise ValueError(f"{value} is not of dtype '{dtype}'")
        return value


class Precision(WireModel):
    """The required arithmetic: the accumulator's dtype, and if TF32 may replace float32 in products.

    `convolutions` is what PyTorch does by default: TF32 in convolutions and recurrent layers, float32 in matrix
    products.
    """

    accumulate: Literal["float32", "float64"] = "float32"
    allow_tf32: bool | Literal["convolutions"] = False


class Policy(WireModel):
    """The rights of host code besides launching kernels: allocate and fill, or also copy."""

    host: Literal["allocate", "copy"] = "allocate"


class BenchmarkShape(WireModel):
    """Sizes by dimension name, and the weight in the objective's geometric mean."""

    dims: dict[Identifier, Size]
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)


BaselineName = Literal["compile", "max_autotune", "native", "liger", "helion", "seed"]
"""Baselines besides eager PyTorch: two modes of torch.compile, PyTorch's own operator in one call, liger-kernel's, and
a kernel in Helion.

`seed` stands alone and in place of all: speedups are over the first seed kernel, which is the pacer.
"""


class ShapeRole(StrEnum):
    """The purpose of a shape: benchmark shapes are timed, all others are only checked, random ones on finalists."""

    BENCHMARK = "benchmark"
    BOUNDARY = "boundary"
    HELD_OUT = "held_out"
    RANDOM = "random"


class Shape(WireModel):
    """A point in the operator's space of sizes."""

    dims: dict[Identifier, Size]
    role: ShapeRole = ShapeRole.BENCHMARK
    weight: float = Field(default=1.0, gt=0, allow_inf_nan=False)

    @property
    def key(self) -> str:
        """Canonical text, such as `M=4096,N=4096`."""
        return ",".join(f"{name}={size}" for name, size in sorted(self.dims.items()))


class Operator(WireModel):
    """The computation that kernels are searched for, and how they are evaluated.

    `reference` is Python source that defines `entry`. `seeds` are sources of candidates that a search starts from;
    predicted times are compared with those of the first. With `backward` a plan also computes gradients: it also takes
    those of the float outputs and returns those of the float inputs.
    """

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]*$", max_length=64)]
    entry: Identifier
    reference: Annotated[str, Field(min_length=1, max_length=65536)]
    inputs: tuple[Input, ...] = Field(min_length=1, max_length=MAX_INPUTS)
    outputs: tuple[Output, ...] = Field(min_length=1, max_length=16)
    scalars: tuple[Scalar, ...] = ()
    seeds: tuple[SourceText, ...] = Field(default=(), max_length=16)
    shapes: tuple[BenchmarkShape, ...] = Field(min_length=1, max_length=64)
    ranges: dict[Identifier, tuple[Size, Size]] = {}
    precision: Precision = Precision()
    policy: Policy = Policy()
    backward: bool = False
    baselines: Annotated[tuple[BaselineName, ...], Field(max_length=4)] | None = Field(
        default=None, exclude_if=lambda names: names is None
    )
    """Baselines besides eager PyTorch; None for all. Each takes seconds, and max-autotune up to two minutes, before the
    first kernel has a speedup."""

    @model_validator(mode="after")
    def _names_hold(self) -> Self:
        arguments = [item.name for item in self.inputs] + [item.name for item in self.scalars]
        for name in (self.entry, *arguments):
            if keyword.iskeyword(name):
                field = "entry" if name == self.entry else "inputs"
                raise ValueError(f"{field}: '{name}' is a Python keyword and cannot be a name here")
        if len(set(arguments)) != len(arguments):
            raise ValueError(f"inputs: argument names must differ: {', '.join(arguments)}")
        for index, item in enumerate(self.inputs):
            for name in names_in(item.high):
                if name not in self.extents:
                    raise ValueError(f"inputs[{index}].high: no input has a dimension '{name}'")
        return self

    @model_validator(mode="after")
    def _sizes_hold(self) -> Self:
        for index, shape in enumerate(self.shapes):
            for dimension in self.dimensions:
                if dimension not in shape.dims:
                    raise ValueError(f"shapes[{index}]: gives no size for dimension '{dimension}'")
            for name in shape.dims:
                if name not in self.dimensions:
                    raise ValueError(f"shapes[{index}].{name}: no input or scalar has a dimension '{name}'")
        for name, (low, high) in self.ranges.items():
            if name not in self.dimensions:
                raise ValueError(f"ranges.{name}: no input or scalar has a dimension '{name}'")
            if low > high:
                raise ValueError(f"ranges.{name}: {low} is more than {high}; write [smallest, largest]")
        return self

    @model_validator(mode="after")
    def _presence_holds(self) -> Self:
        for index, item in enumerate(self.inputs):
            if item.optional and (self.backward or item.mutable):
                raise ValueError(f"inputs[{index}].optional: an absent input has no gradient and no content afterwards")
            if item.optional and (item.name in self.extents or item.name in self.ranges):
                raise ValueError(f"inputs[{index}].optional: '{item.name}' is 0 or 1 in shapes, and no dimension")
        if all(item.optional for item in self.inputs):
            raise ValueError("inputs: at least one must not be optional")
        for index, shape in enumerate(self.shapes):
            for name in self.presences:
                if shape.dims[name] > 1:
                    raise ValueError(f"shapes[{index}].{name}: 1 if the optional input is given, 0 if it is None")
            for item in self.inputs:
                if 0 in self.input_shape(item, shape.dims) and self.is_present(item, shape.dims):
                    raise ValueError(f"shapes[{index}]: input '{item.name}' is empty; only shapes with work are timed")
        return self

    @model_validator(mode="after")
    def _integers_hold(self) -> Self:
        for shape in self.shapes:
            bounds = {name: self.ranges.get(name, (size, size)) for name, size in shape.dims.items()}
            for index, item in enumerate(self.inputs):
                fault = without_values(item, bounds)
                if fault is not None:
                    raise ValueError(f"inputs[{index}]: {fault}")
        return self

    @model_validator(mode="after")
    def _contents_hold(self) -> Self:
        inputs = {item.name: item for item in self.inputs}
        named = [output.name for output in self.outputs if output.name in inputs]
        for index, output in enumerate(self.outputs):
            item = inputs.get(output.name)
            if item is None:
                continue
            if not item.mutable:
                raise ValueError(f"outputs[{index}].name: '{item.name}' is an input; make it mutable, or rename this")
            if item.dtype != output.dtype:
                raise ValueError(f"outputs[{index}].dtype: the content of input '{item.name}' is {item.dtype}")
            if named.count(item.name) > 1:
                raise ValueError(f"outputs[{index}].name: the content of '{item.name}' is an output already")
        return self

    @model_validator(mode="after")
    def _gradients_hold(self) -> Self:
        if not self.backward:
            return self
        for index, output in enumerate(self.outputs):
            self._require_shape(index, output)
        for index, item in enumerate(self.inputs):
            if item.mutable:
                raise ValueError(f"inputs[{index}].mutable: an operator with backward leaves its inputs as they are")
        if not self.differentiated or not self.upstream:
            raise ValueError("backward: needs a float output, and a float input whose gradient is not false")
        tensors: tuple[Input | Output, ...] = (*self.given, *self.results)
        names = [*(item.name for item in tensors), *(item.name for item in self.scalars)]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"backward: two tensors are called '{twice}'; gradients are called grad_<name>")
        return self

    def _require_shape(self, index: int, output: Output) -> None:
        if is_float(output.dtype) and output.shape is None:
            raise ValueError(
                f"outputs[{index}].shape: write it, as the output's gradient is an input when backward is true"
            )
        for name in (name for extent in output.shape or () for name in names_in(extent)):
            if name not in self.extents:
                raise ValueError(f"outputs[{index}].shape: no input has a dimension '{name}'")

    @model_validator(mode="after")
    def _baselines_hold(self) -> Self:
        if "seed" in (self.baselines or ()) and (self.baselines != ("seed",) or not self.seeds):
            raise ValueError("baselines: 'seed' stands alone, and needs a seed kernel")
        return self

    @property
    def has_baselines(self) -> bool:
        """True if speedups on a card are over baselines; False if they are over the first seed kernel."""
        return self.baselines != ("seed",)

    @property
    def upstream(self) -> tuple[Input, ...]:
        """Gradients of the float outputs, which a plan with `backward` takes after the inputs."""
        return tuple(
            Input(name=f"grad_{output.name}", shape=output.shape or (), dtype=output.dtype)
            for output in self.outputs
            if self.backward and is_float(output.dtype)
        )

    @property
    def differentiated(self) -> tuple[int, ...]:
        """Positions of the inputs whose gradients are returned."""
        chosen = (item.gradient and is_float(item.dtype) for item in self.inputs)
        return tuple(index for index, wanted in enumerate(chosen) if wanted and self.backward)

    @property
    def given(self) -> tuple[Input, ...]:
        """All tensors that a plan takes, in order."""
        return (*self.inputs, *self.upstream)

    @property
    def results(self) -> tuple[Output, ...]:
        """All tensors that a plan returns, in order: the outputs, and with `backward` the inputs' gradients."""
        inputs = (self.inputs[index] for index in self.differentiated)
        return (*self.outputs, *(Output(name=f"grad_{item.name}", dtype=item.dtype) for item in inputs))

    @property
    def in_place(self) -> dict[int, int]:
        """Numbers of the outputs that are an input's content after the call, with the number of that input."""
        inputs = {item.name: number for number, item in enumerate(self.inputs)}
        return {number: inputs[item.name] for number, item in enumerate(self.outputs) if item.name in inputs}

    @property
    def backward_entry(self) -> str:
        """Name of the function that a candidate defines for the gradients."""
        return f"{self.entry}_backward"

    @property
    def extents(self) -> tuple[str, ...]:
        """Names of the dimensions that inputs have, in order of first use."""
        named = (name for item in self.inputs for extent in item.shape for name in names_in(extent))
        return tuple(dict.fromkeys(named))

    @property
    def presences(self) -> tuple[str, ...]:
        """Names of the optional inputs: dimensions of size 1 where an input is given, and 0 where it is None."""
        return tuple(item.name for item in self.inputs if item.optional)

    @property
    def dimensions(self) -> tuple[str, ...]:
        """Names of all dimensions: those of inputs, those that only scalars have, then optional inputs."""
        named = (name for scalar in self.scalars for name in names_in(scalar.value))
        return tuple(dict.fromkeys((*self.extents, *named, *self.presences)))

    def scalar_values(self, dims: Mapping[str, int]) -> list[bool | int | float]:
        """Return the arguments after the inputs, at some dimensions."""
        values = (scalar.value for scalar in self.scalars)
        return [size_of(value, dims) if isinstance(value, str) else value for value in values]

    def is_present(self, item: Input, dims: Mapping[str, int]) -> bool:
        """Return True if an input is given at some dimensions; False if its argument is None."""
        return not item.optional or dims[item.name] != 0

    def arguments(self, tensors: Sequence[Present], dims: Mapping[str, int]) -> list[Present | None]:
        """Return the arguments of a call from tensors for `inputs`, or all of `given`: None for each absent input."""
        pairs = zip(self.given, tensors, strict=False)
        return [tensor if self.is_present(item, dims) else None for item, tensor in pairs]

    def input_shape(self, item: Input, dims: Mapping[str, int]) -> tuple[int, ...]:
        """Return the sizes of an input at some dimensions; those of an absent input are 0."""
        if not self.is_present(item, dims):
            return (0,) * max(1, len(item.shape))
        return tuple(size_of(extent, dims) for extent in item.shape)

    def is_empty(self, dims: Mapping[str, int]) -> bool:
        """Return True if an input that is given has no elements, at some dimensions."""
        return any(0 in self.input_shape(item, dims) for item in self.given if self.is_present(item, dims))

    def is_far(self, dims: dict[str, int]) -> bool:
        """Return True if an input has more elements than a signed 32-bit index can address, at some dimensions."""
        return any(prod(self.input_shape(item, dims)) > FAR for item in self.given)

    def input_bytes(self, dims: dict[str, int]) -> int:
        """Return the bytes of all tensors that a plan takes, at some dimensions."""
        return sum(prod(self.input_shape(item, dims)) * DTYPE_BYTES[item.dtype] for item in self.given)

    @property
    def has_narrow_values(self) -> bool:
        """True if an input, a result or a step of the reference has 8 bits or fewer; booleans do not count."""
        dtypes = {item.dtype for item in self.inputs} | {item.dtype for item in self.outputs}
        is_given = any(DTYPE_BYTES[dtype] == 1 for dtype in dtypes - {"bool"})
        return is_given or NARROW_DTYPE.search(self.reference) is not None

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON form: the operator's identity in the archive."""
        return hashlib.sha256(self.model_dump_json().encode()).hexdigest()
