"""Machine code of the checker's kernels for a target, made by Triton without a card. In the bench, before it forks."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import JITFunction

from workers.checker import kernels
from workers.errors import ToolMissing
from workers.support import SupportKernel
from workers.targets import TARGETS, Target

MEASURED = {"float16": tl.float16, "bfloat16": tl.bfloat16, "float32": tl.float32, "float64": tl.float64}
"""Dtypes of outputs that are measured as they are."""
EVEN = 16
"""Rows whose length is a multiple of this many elements are read in whole vectors."""


def measure_name(dtype: str, columns: int) -> str:
    """The kernel that measures outputs of a dtype in rows of so many columns."""
    return f"measure_{dtype}_{'even' if columns % EVEN == 0 else 'odd'}"


CHECKER: tuple[str, ...] = (
    "differences",
    *(measure_name(dtype, columns) for dtype in MEASURED for columns in (EVEN, EVEN - 1)),
)
"""Names of the kernels: what `kernels` calls them, the second by dtype and by whether rows are even."""


def compile_checker(target: str) -> dict[str, SupportKernel]:
    """Compile every kernel for a target.

    Raises:
        ToolMissing: If the target is none of NVIDIA's.
    """
    sheet = TARGETS.get(target)
    if sheet is None or sheet.vendor != "nvidia":
        raise ToolMissing(f"there are no kernels of ours for '{target}'")
    compiled = {"differences": _compile(sheet, kernels.differences, "*i64 *i32 i64")}
    for dtype, element in MEASURED.items():
        for columns in (EVEN, EVEN - 1):
            even = ("columns",) if columns == EVEN else ()
            name = measure_name(dtype, columns)
            compiled[name] = _compile(sheet, kernels.measure, "*i64 *fp32 i32 i32 fp32", {"dtype": element}, even)
    return compiled


def _compile(
    sheet: Target,
    function: JITFunction,
    types: str,
    constants: Mapping[str, Any] = MappingProxyType({}),
    even: tuple[str, ...] = (),
) -> SupportKernel:
    """Compile one kernel, all pointers and the numbers named `even` being multiples of 16."""
    names = function.arg_names
    kinds = dict(zip(names, [*types.split(), *("constexpr" for _ in constants)], strict=True))
    aligned = [index for index, name in enumerate(names) if kinds[name].startswith("*") or name in even]
    source = ASTSource(
        function,
        kinds,
        {(names.index(name),): value for name, value in constants.items()},
        {(index,): [["tt.divisibility", 16]] for index in aligned},
    )
    compiled = triton.compile(source, target=GPUTarget("cuda", sheet.arch, sheet.warp_size))
    metadata = compiled.metadata
    return SupportKernel(compiled.asm["cubin"], metadata.name, metadata.shared, metadata.num_warps)
