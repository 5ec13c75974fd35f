"""libdevice functions in numpy and torch, by the symbols that Triton's CUDA bindings call."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from triton import language as tl

from workers.interpreter.faults import Array
from workers.interpreter.formats import TritonType, as_tensor, truncate_to_integer


def through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    """Make a function of arrays from one of tensors."""

    def call(data: Array) -> Array:
        return np.asarray(function(as_tensor(data)).numpy())

    return call


def reciprocal_root(data: Array) -> Array:
    """Return 1 / sqrt(x)."""
    return np.asarray(1 / np.sqrt(data))


def _reciprocal_cube_root(data: Array) -> Array:
    return np.asarray(1 / np.cbrt(data))


def _saturate(data: Array) -> Array:
    return np.asarray(np.fmin(np.fmax(data, data.dtype.type(0)), data.dtype.type(1)))


def fma(left: Array, right: Array, addend: Array) -> Array:
    """Multiply and add in float64."""
    return np.asarray(left.astype(np.float64) * right + addend)


def _round(data: Array) -> Array:
    """Round to the nearest integer, halves away from zero; a half is added only where the sum does not round up."""
    size = np.abs(data)
    far = size >= 1 / np.finfo(data.dtype).eps  # These are integers.
    result: Array = np.copysign(
        np.where((size < 0.5) | far, np.trunc(size), np.floor(size + data.dtype.type(0.5))), data
    )
    return result


def _quantile(data: Array) -> Array:
    """Invert the normal distribution function."""
    return np.asarray(torch.special.ndtri(as_tensor(data.astype(np.float64))).numpy()).astype(data.dtype)


def _inverse_of_erfc(data: Array) -> Array:
    """Invert `erfc` through the normal distribution, which is exact near 0, in the tail of `erfc`."""
    return np.asarray((-_quantile(data.astype(np.float64) / 2) / np.sqrt(2.0)).astype(data.dtype))


def _sine_of_half_turns(data: Array) -> Array:
    """Compute sin(pi x), reduced by whole turns first: it is exactly zero at integers."""
    rest = data - 2 * np.rint(data / 2)
    near = np.where(np.abs(rest) > 0.5, np.copysign(1, rest) - rest, rest)
    return np.asarray(np.sin(np.pi * near.astype(np.float64)).astype(data.dtype))


def _cosine_of_half_turns(data: Array) -> Array:
    rest = np.abs(data - 2 * np.rint(data / 2))
    return np.asarray(np.sin(np.pi * (0.5 - rest.astype(np.float64))).astype(data.dtype))


def _positive_difference(left: Array, right: Array) -> Array:
    return np.where(left <= right, left.dtype.type(0), left - right)


def _exponent(data: Array) -> Array:
    """Return the binary exponent as a float: minus infinity for zero, infinity for infinities."""
    found = np.frexp(data)[1].astype(data.dtype) - 1
    return np.where(np.isfinite(data), np.where(data == 0, -np.inf, found), np.abs(data)).astype(data.dtype)


def _unsigned(data: Array) -> Array:
    return data.view(f"u{data.itemsize}")


def _count_ones(data: Array) -> Array:
    return np.bitwise_count(_unsigned(data))


def _leading_zeros(data: Array) -> Array:
    """Count the bits above the highest one that is set."""
    filled, bits = _unsigned(data), 8 * data.itemsize
    for shift in (1, 2, 4, 8, 16, 32)[: bits.bit_length() - 1]:
        filled = filled | filled >> filled.dtype.type(shift)
    return bits - np.bitwise_count(filled).astype(np.int32)


def _first_set(data: Array) -> Array:
    """Return the number of the lowest bit that is set, from 1; 0 if none is."""
    return np.where(data == 0, 0, np.bitwise_count(_unsigned(data ^ (data - 1))))


def _bits_as(name: str) -> Callable[[Array], Array]:
    return lambda data: data.view(name)


def _average(left: Array, right: Array) -> Array:
    """Average 32-bit integers, rounded down."""
    return np.asarray((left.astype(np.int64) + right) >> 1)


def _average_up(left: Array, right: Array) -> Array:
    return np.asarray((left.astype(np.int64) + right + 1) >> 1)


def _to_float(held: type[np.floating[Any]], is_unsigned: bool) -> Callable[[Array], Array]:
    return lambda data: (_unsigned(data) if is_unsigned else data).astype(held)


def _to_integer(rounded: Callable[[Array], Array], dtype: TritonType) -> Callable[[Array], Array]:
    return lambda data: truncate_to_integer(rounded(data), dtype)


def _is_set(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def call(data: Array) -> Array:
        return function(data).astype(np.int32)

    return call


_REAL: dict[str, Callable[..., Array]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "erf": through_torch(torch.special.erf), "erfc": through_torch(torch.special.erfc),
    "erfcinv": _inverse_of_erfc, "erfinv": through_torch(torch.special.erfinv),
    "exp": np.exp, "exp10": lambda x: np.power(x.dtype.type(10), x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "floor": np.floor, "fma": fma, "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod,
    "hypot": np.hypot, "lgamma": through_torch(torch.lgamma), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "nearbyint": np.rint, "normcdf": through_torch(torch.special.ndtr), "pow": np.power,
    "rcbrt": _reciprocal_cube_root,
    "remainder": lambda x, y: x - y * np.rint(x / y), "rint": np.rint, "rsqrt": reciprocal_root, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "round": _round, "powi": np.power, "sinpi": _sine_of_half_turns, "cospi": _cosine_of_half_turns,
    "fdim": _positive_difference, "ldexp": np.ldexp, "scalbn": np.ldexp, "logb": _exponent, "nextafter": np.nextafter,
    "rhypot": lambda x, y: 1 / np.hypot(x, y), "norm3d": lambda x, y, z: np.hypot(np.hypot(x, y), z),
    "normcdfinv": _quantile, "erfcx": through_torch(torch.special.erfcx),
    "cyl_bessel_i0": through_torch(torch.special.i0), "cyl_bessel_i1": through_torch(torch.special.i1),
    "j0": through_torch(torch.special.bessel_j0), "j1": through_torch(torch.special.bessel_j1),
    "y0": through_torch(torch.special.bessel_y0), "y1": through_torch(torch.special.bessel_y1),
    "llrint": _to_integer(np.rint, tl.int64), "llround": _to_integer(_round, tl.int64),
}  # fmt: skip
"""Functions that exist for float64 under this name and for float32 with an `f` appended."""

_ROUNDINGS: dict[str, Callable[[Array], Array]] = {"rn": np.rint, "rz": np.trunc, "rd": np.floor, "ru": np.ceil}
_INTEGERS = {"int": tl.int32, "uint": tl.uint32, "ll": tl.int64, "ull": tl.uint64}

FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{f"__nv_{name}": function for name, function in _REAL.items()},
    **{f"__nv_{name}f": function for name, function in _REAL.items()},
    # Approximations of float32: computed exactly, since their error is not specified.
    "__nv_fast_expf": np.exp, "__nv_fast_exp10f": _REAL["exp10"], "__nv_fast_logf": np.log, "__nv_fast_log2f": np.log2,
    "__nv_fast_log10f": np.log10, "__nv_fast_sinf": np.sin, "__nv_fast_cosf": np.cos, "__nv_fast_tanf": np.tan,
    "__nv_fast_powf": np.power, "__nv_fast_fdividef": np.divide, "__nv_saturatef": _saturate,
    # Explicit rounding to nearest; the other modes are missing.
    "__nv_fadd_rn": np.add, "__nv_fmul_rn": np.multiply, "__nv_fsub_rn": np.subtract, "__nv_fdiv_rn": np.divide,
    "__nv_fsqrt_rn": np.sqrt, "__nv_frsqrt_rn": reciprocal_root, "__nv_fmaf_rn": fma,
    "__nv_frcp_rn": lambda x: 1 / x,
    "__nv_dadd_rn": np.add, "__nv_dmul_rn": np.multiply, "__nv_ddiv_rn": np.divide, "__nv_dsqrt_rn": np.sqrt,
    "__nv_dsub_rn": np.subtract, "__nv_drcp_rn": lambda x: 1 / x,
    # Conversions saturate, as the instruction does.
    **{
        f"__nv_{source}2{name}_{mode}": _to_integer(function, dtype)
        for source in ("float", "double")
        for name, dtype in _INTEGERS.items()
        for mode, function in _ROUNDINGS.items()
    },
    **{
        f"__nv_{name}2{result}_rn": _to_float(held, is_unsigned=name[0] == "u")
        for name in _INTEGERS
        for result, held in (("float", np.float32), ("double", np.float64))
    },
    "__nv_float_as_int": _bits_as("i4"), "__nv_float_as_uint": _bits_as("i4"), "__nv_int_as_float": _bits_as("f4"),
    "__nv_uint_as_float": _bits_as("f4"), "__nv_double_as_longlong": _bits_as("i8"),
    "__nv_longlong_as_double": _bits_as("f8"),
    # Tests and integers.
    "__nv_isnanf": _is_set(np.isnan), "__nv_isnand": _is_set(np.isnan), "__nv_isinff": _is_set(np.isinf),
    "__nv_isinfd": _is_set(np.isinf), "__nv_finitef": _is_set(np.isfinite), "__nv_isfinited": _is_set(np.isfinite),
    "__nv_signbitf": _is_set(np.signbit), "__nv_signbitd": _is_set(np.signbit), "__nv_abs": np.abs,
    "__nv_llabs": np.abs, "__nv_min": np.minimum, "__nv_max": np.maximum, "__nv_llmin": np.minimum,
    "__nv_llmax": np.maximum, "__nv_popc": _count_ones, "__nv_popcll": _count_ones, "__nv_clz": _leading_zeros,
    "__nv_clzll": _leading_zeros, "__nv_ffs": _first_set, "__nv_ffsll": _first_set, "__nv_hadd": _average,
    "__nv_rhadd": _average_up, "__nv_uhadd": _average, "__nv_urhadd": _average_up,
}  # fmt: skip
"""Functions by symbol. A missing one makes the kernel not interpretable."""

OF_FLOAT_BITS = frozenset(
    f"__nv_{name}"
    for name in (
        "signbitf", "signbitd", "copysign", "copysignf", "float_as_int", "float_as_uint", "double_as_longlong",
    )
)  # fmt: skip
"""Functions that read the bits of floats, those of a NaN too."""
