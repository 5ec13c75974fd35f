"""Number formats: array dtype, rounding, loading and storing of each Triton dtype.

Floats narrower than float32 are held as float32 and rounded to nearest even after every operation that can leave
their format, as the hardware does. All other dtypes are held as numpy's own.
"""

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import torch
from triton import language as tl

from workers.interpreter.faults import Array, NotInterpretable

TritonType: TypeAlias = Any
"""A `triton.language` dtype, pointer type or block type."""


@dataclass(frozen=True)
class ScalarFormat:
    """Representation of one scalar type.

    Attributes:
        held: Dtype of arrays in registers.
        stored: Dtype of the same values in memory.
        torch_name: Torch's name of the dtype for floats narrower than float32, which torch rounds.
    """

    held: np.dtype[Any]
    stored: np.dtype[Any]
    torch_name: str = ""


def _same(name: str) -> ScalarFormat:
    return ScalarFormat(np.dtype(name), np.dtype(name))


FORMATS = {
    "int1": ScalarFormat(np.dtype("bool"), np.dtype("uint8")),
    **{name: _same(name) for name in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")},
    "fp64": _same("float64"),
    "fp32": _same("float32"),
    "fp16": ScalarFormat(np.dtype("float32"), np.dtype("uint16"), "float16"),
    "bf16": ScalarFormat(np.dtype("float32"), np.dtype("uint16"), "bfloat16"),
    "fp8e4nv": ScalarFormat(np.dtype("float32"), np.dtype("uint8"), "float8_e4m3fn"),
    "fp8e5": ScalarFormat(np.dtype("float32"), np.dtype("uint8"), "float8_e5m2"),
}
"""Formats by Triton's name of the scalar type."""

ADDRESS = ScalarFormat(np.dtype("int64"), np.dtype("int64"))
"""Format of pointers: addresses of `workers.interpreter.memory`."""


def format_of(dtype: TritonType) -> ScalarFormat:
    """Return the format of a scalar type, or of the elements of a block type.

    Raises:
        NotInterpretable: If the type has no format here.
    """
    scalar = dtype.scalar
    if scalar.is_ptr():
        return ADDRESS
    if scalar.name not in FORMATS:
        raise NotInterpretable(f"the interpreter does not know the dtype {scalar}")
    return FORMATS[scalar.name]


def round_to(data: Array, dtype: TritonType) -> Array:
    """Bring computed values back into a format: narrow floats are rounded, others get their numpy dtype."""
    form = format_of(dtype)
    if data.dtype != form.held:
        data = data.astype(form.held)
    if form.torch_name == "bfloat16":
        return _round_bfloat16(data)
    if form.torch_name == "float16":
        return data.astype(np.float16).astype(np.float32)
    return decode(encode(data, dtype), dtype) if form.torch_name else data


def _round_bfloat16(data: Array) -> Array:
    bits = np.ascontiguousarray(data).view(np.uint32)
    rounded = (bits + (((bits >> 16) & 1) + np.uint32(0x7FFF))) & np.uint32(0xFFFF0000)
    return np.where(np.isnan(data), data, rounded.view(np.float32))


def truncate_to(data: Array, dtype: TritonType) -> Array:
    """Round a float32 array toward zero into float16 or bfloat16.

    Raises:
        NotInterpretable: For other formats.
    """
    name = format_of(dtype).torch_name
    if name == "bfloat16":
        return (np.ascontiguousarray(data).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    if name == "float16":
        nearest = data.astype(np.float16)
        too_far = np.abs(nearest.astype(np.float32)) > np.abs(data)
        return np.where(too_far, np.nextafter(nearest, np.float16(0)), nearest).astype(np.float32)
    raise NotInterpretable(f"the interpreter cannot round toward zero into {dtype}")


def truncate_to_tf32(data: Array) -> Array:
    """Keep the upper 19 bits, which the matrix unit reads of a float32 operand in TF32 mode."""
    return (np.ascontiguousarray(data).view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)


def round_to_tf32(data: Array) -> Array:
    """Round as `cvt.rna.tf32.f32` does: to 10 bits of the mantissa, to nearest, ties away from zero."""
    rounded = (np.ascontiguousarray(data).view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return np.where(np.isnan(data), data, rounded.view(np.float32))


def as_tensor(data: Array) -> torch.Tensor:
    """Return the array as a torch tensor; it is copied if torch cannot use its memory."""
    return torch.from_numpy(np.require(data, requirements=["C", "W"]))


def encode(data: Array, dtype: TritonType) -> Array:
    """Convert values from registers to memory. Float8 saturates, as the conversion instructions do."""
    form = format_of(dtype)
    if form.torch_name == "bfloat16":
        return (_round_bfloat16(data).view(np.uint32) >> 16).astype(np.uint16)
    if form.torch_name == "float16":
        return data.astype(np.float16).view(np.uint16)
    if form.torch_name:
        target: torch.dtype = getattr(torch, form.torch_name)
        limit = torch.finfo(target).max
        values = as_tensor(data).clamp(-limit, limit)
        return np.asarray(values.to(target).view(torch.uint8).numpy())
    return np.ascontiguousarray(data).astype(form.stored, copy=False)


def decode(raw: Array, dtype: TritonType) -> Array:
    """Convert values from memory to registers."""
    form = format_of(dtype)
    if form.torch_name == "bfloat16":
        return (raw.astype(np.uint32) << 16).view(np.float32)
    if form.torch_name == "float16":
        return raw.view(np.float16).astype(np.float32)
    if form.torch_name:
        source: torch.dtype = getattr(torch, form.torch_name)
        return np.asarray(as_tensor(raw).view(source).float().numpy())
    return raw.astype(form.held, copy=False)


def truncate_to_integer(data: Array, dtype: TritonType) -> Array:
    """Convert floats to integers: toward zero, saturating.

    No instruction yields a byte: it saturates to 16 bits, and the upper 8 are dropped (observed in the output of Triton
    3.7 for sm_90). NaN becomes 0. If source or result has 64 bits, it becomes the highest bit alone (PTX ISA, `cvt`).
    """
    held = format_of(dtype).held
    given = np.dtype(f"{held.kind}2") if held.itemsize == 1 else held
    bounds = np.iinfo(given)
    wide = np.nan_to_num(np.trunc(data.astype(np.float64)), nan=0.0, posinf=np.inf, neginf=-np.inf)
    clipped = np.clip(wide, float(bounds.min), float(bounds.max))
    exact = np.where(clipped >= float(bounds.max), 0.0, clipped).astype(given)
    result: Array = np.where(clipped >= float(bounds.max), given.type(bounds.max), exact).astype(held)
    if held.itemsize == 8 or data.dtype == np.float64:
        highest = np.array(1 << (8 * held.itemsize - 1), np.uint64).astype(held)
        result = np.where(np.isnan(data), highest, result)
    return result


@dataclass(frozen=True)
class FalseHint:
    """The value that the compiler assumes because of a false hint.

    Attributes:
        data: The assumed data.
        hint: The hint and its line.
    """

    data: Array
    hint: str


@dataclass
class TensorValue:
    """The value of a `tl.tensor`: an array of (draws or 1, programs or 1, *block) and its scalar type.

    Attributes:
        data: The array.
        dtype: The type.
        belief: Assumed value if it depends on a false hint.
        hints: Hints about it, by name.
        is_used: True if other values were computed from it.
    """

    data: Array
    dtype: TritonType
    belief: FalseHint | None = None
    hints: dict[str, tuple[int, ...]] = field(default_factory=dict)
    is_used: bool = False

    @property
    def believed(self) -> Array:
        """The data that the compiler assumes."""
        return self.data if self.belief is None else self.belief.data


def constant(number: float, dtype: TritonType) -> TensorValue:
    """Return a scalar that is the same in every draw and program."""
    return TensorValue(round_to(np.array([[number]]).astype(format_of(dtype).held), dtype), dtype)


POINTER_DTYPES = {
    "bool": tl.int1, "int8": tl.int8, "uint8": tl.uint8, "int16": tl.int16, "int32": tl.int32, "int64": tl.int64,
    "float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32, "float64": tl.float64,
    "float8_e4m3fn": tl.float8e4nv, "float8_e5m2": tl.float8e5,
}  # fmt: skip
"""Triton's element dtype of a pointer, by torch's dtype."""

NUMBER_DTYPES = {
    "i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64, "u1": tl.int1, "u8": tl.uint8,
    "u16": tl.uint16, "u32": tl.uint32, "u64": tl.uint64, "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32,
    "fp64": tl.float64,
}  # fmt: skip
"""Triton's dtypes by the type names of plan arguments."""
