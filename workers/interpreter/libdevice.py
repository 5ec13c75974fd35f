"""libdevice functions in numpy and torch, by the symbols that Triton's CUDA bindings call."""

from collections.abc import Callable

import numpy as np
import torch

from workers.interpreter.faults import Array
from workers.interpreter.formats import as_tensor


def _through_torch(function: Callable[[torch.Tensor], torch.Tensor]) -> Callable[[Array], Array]:
    def call(data: Array) -> Array:
        return np.asarray(function(as_tensor(data)).numpy())

    return call


def _reciprocal_root(data: Array) -> Array:
    result: Array = 1 / np.sqrt(data)
    return result


def _reciprocal_cube_root(data: Array) -> Array:
    result: Array = 1 / np.cbrt(data)
    return result


def _saturate(data: Array) -> Array:
    result: Array = np.fmin(np.fmax(data, data.dtype.type(0)), data.dtype.type(1))
    return result


def _fma(left: Array, right: Array, addend: Array) -> Array:
    result: Array = left.astype(np.float64) * right + addend
    return result


def _normal_cdf(data: Array) -> Array:
    return np.asarray(torch.special.ndtr(as_tensor(data)).numpy())


def _divide(left: Array, right: Array) -> Array:
    return np.divide(left, right)


def _is_set(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    def call(data: Array) -> Array:
        return function(data).astype(np.int32)

    return call


_REAL: dict[str, Callable[..., Array]] = {
    "acos": np.arccos, "acosh": np.arccosh, "asin": np.arcsin, "asinh": np.arcsinh, "atan": np.arctan,
    "atan2": np.arctan2, "atanh": np.arctanh, "cbrt": np.cbrt, "ceil": np.ceil, "copysign": np.copysign, "cos": np.cos,
    "cosh": np.cosh, "erf": _through_torch(torch.special.erf), "erfc": _through_torch(torch.special.erfc),
    "erfcinv": _through_torch(lambda x: torch.special.erfinv(1 - x)), "erfinv": _through_torch(torch.special.erfinv),
    "exp": np.exp, "exp10": lambda x: np.power(x.dtype.type(10), x), "exp2": np.exp2, "expm1": np.expm1,
    "fabs": np.abs, "floor": np.floor, "fma": _fma, "fmax": np.fmax, "fmin": np.fmin, "fmod": np.fmod,
    "hypot": np.hypot, "lgamma": _through_torch(torch.lgamma), "log": np.log, "log10": np.log10, "log1p": np.log1p,
    "log2": np.log2, "nearbyint": np.rint, "normcdf": _normal_cdf, "pow": np.power, "rcbrt": _reciprocal_cube_root,
    "remainder": lambda x, y: x - y * np.rint(x / y), "rint": np.rint, "rsqrt": _reciprocal_root, "sin": np.sin,
    "sinh": np.sinh, "sqrt": np.sqrt, "tan": np.tan, "tanh": np.tanh, "trunc": np.trunc,
    "round": lambda x: np.trunc(x + np.copysign(x.dtype.type(0.5), x)),
}  # fmt: skip
"""Functions that exist for float64 under this name and for float32 with an `f` appended."""

FUNCTIONS: dict[str, Callable[..., Array]] = {
    **{f"__nv_{name}": function for name, function in _REAL.items()},
    **{f"__nv_{name}f": function for name, function in _REAL.items()},
    # Approximations of float32: computed exactly, since their error is not specified.
    "__nv_fast_expf": np.exp, "__nv_fast_exp10f": _REAL["exp10"], "__nv_fast_logf": np.log, "__nv_fast_log2f": np.log2,
    "__nv_fast_log10f": np.log10, "__nv_fast_sinf": np.sin, "__nv_fast_cosf": np.cos, "__nv_fast_tanf": np.tan,
    "__nv_fast_powf": np.power, "__nv_fast_fdividef": _divide, "__nv_saturatef": _saturate,
    # Explicit rounding modes, to nearest only.
    "__nv_fadd_rn": np.add, "__nv_fmul_rn": np.multiply, "__nv_fsub_rn": np.subtract, "__nv_fdiv_rn": np.divide,
    "__nv_fsqrt_rn": np.sqrt, "__nv_frsqrt_rn": _reciprocal_root, "__nv_fmaf_rn": _fma,
    "__nv_frcp_rn": lambda x: 1 / x,
    "__nv_dadd_rn": np.add, "__nv_dmul_rn": np.multiply, "__nv_ddiv_rn": np.divide, "__nv_dsqrt_rn": np.sqrt,
    # Tests and integers.
    "__nv_isnanf": _is_set(np.isnan), "__nv_isnand": _is_set(np.isnan), "__nv_isinff": _is_set(np.isinf),
    "__nv_isinfd": _is_set(np.isinf), "__nv_finitef": _is_set(np.isfinite), "__nv_isfinited": _is_set(np.isfinite),
    "__nv_signbitf": _is_set(np.signbit), "__nv_signbitd": _is_set(np.signbit), "__nv_abs": np.abs,
    "__nv_llabs": np.abs, "__nv_min": np.minimum, "__nv_max": np.maximum, "__nv_llmin": np.minimum,
    "__nv_llmax": np.maximum,
}  # fmt: skip
"""Functions by symbol. What is missing makes a kernel not interpretable."""
