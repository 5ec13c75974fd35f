"""Machine code of the oracle's kernels for a target, made by Triton without a card, in the executor before it forks."""

from functools import partial
from typing import Any

import torch
import triton.language as tl

from workers.device_kernels import SupportKernel
from workers.device_kernels.compilation import Spread, compile_kernel, sheet_of
from workers.float8 import mantissa_bits
from workers.oracle import kernels

MEASURED = {
    "float16": tl.float16,
    "bfloat16": tl.bfloat16,
    "float32": tl.float32,
    "float64": tl.float64,
    "float8_e4m3fn": tl.float16,
    "float8_e5m2": tl.float16,
}
"""Dtypes in which outputs are measured, by their own: float16 holds every value of float8."""
EVEN = 16
"""Divisor of row lengths whose elements are read in whole vectors."""


def measure_name(dtype: str, columns: int) -> str:
    """Return the name of the kernel that measures outputs of a dtype in rows of so many columns."""
    return f"measure_{dtype}_{'even' if columns % EVEN == 0 else 'odd'}"


def measure_constants(dtype: str) -> dict[str, Any]:
    """Return the constants of the kernel that measures outputs of a dtype, by name."""
    return {"dtype": MEASURED[dtype], "bits": mantissa_bits(getattr(torch, dtype))}


_MEASURES = {measure_name(dtype, EVEN - odd): (dtype, not odd) for dtype in MEASURED for odd in (False, True)}
# Dtype, and True if rows are read in whole vectors, by the name of the kernel that measures such outputs.


def compile_oracle(target: str, spread: Spread = map) -> dict[str, SupportKernel]:
    """Compile every kernel for a target.

    Raises:
        ToolMissing: If the target is not one of NVIDIA's.
    """
    sheet_of(target)
    names = ["differences", "sift", *_MEASURES]
    return dict(zip(names, spread(partial(_compile_one, target), names), strict=True))


def _compile_one(target: str, name: str) -> SupportKernel:
    sheet = sheet_of(target)
    if name == "differences":
        return compile_kernel(sheet, kernels.differences, "*i64 *i32 i64")
    if name == "sift":
        return compile_kernel(sheet, kernels.sift, "*i64 *fp32 *fp32 i32 i32 fp32")
    dtype, even = _MEASURES[name]
    return compile_kernel(
        sheet, kernels.measure, "*i64 *fp32 i32 i32 fp32", measure_constants(dtype), even=("columns",) if even else ()
    )
