"""Machine code of the support kernels for a target, made by Triton without a card, in the executor before it forks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource
from triton.runtime.jit import JITFunction

from workers.device_kernels import kernels
from workers.errors import ToolMissing
from workers.protocol.distribution import ORDERED_DTYPES
from workers.targets import TARGETS, Target

CONTENT_BLOCK = 256
"""Counters per program of the content kernels; eight values each."""
BYTES_BLOCK = 8192
"""Bytes per program of `poison`."""
WORDS_BLOCK = 1024
"""Words of 64 bits per program of `count_unpoisoned`."""
ZONE_BLOCK = 1024
"""Bytes per program of the kernels for red zones."""
SUM_BLOCK = 2048
"""Words of 64 bits per program of `sum_up`."""
FLUSH_BLOCK = 4096
"""Words of four bytes per program of `flush`."""
COPY_BLOCKS = (1024, 2048, 4096)
"""Words of four bytes per program of the copies: 32, 64 or 128 bytes per thread. The fastest depends on card and size.
"""

FLOATS = {
    "float16": tl.float16,
    "bfloat16": tl.bfloat16,
    "float32": tl.float32,
    "float64": tl.float64,
    "float8_e5m2": tl.float8e5,
    "float8_e4m3fn": tl.float8e4nv,
}
INTEGERS = {
    "bool": tl.int8,
    "int8": tl.int8,
    "uint8": tl.uint8,
    "int16": tl.int16,
    "int32": tl.int32,
    "int64": tl.int64,
}
_NEWER = {"fill_float8_e4m3fn": (8, 9)}
# Minimum compute capability of kernels that convert to a newer dtype.


@dataclass(frozen=True)
class SupportKernel:
    """One compiled kernel: machine code, the name of its entry, and shared memory and warps per program."""

    code: bytes
    entry: str
    shared_bytes: int
    num_warps: int


@dataclass(frozen=True)
class _Recipe:
    name: str
    function: JITFunction
    signature: str
    constants: Mapping[str, Any] = field(default_factory=dict)
    num_warps: int = 4


def _recipes() -> Iterator[_Recipe]:
    for name, dtype in FLOATS.items():
        constants = {"dtype": dtype, "block": CONTENT_BLOCK}
        yield _Recipe(f"fill_{name}", kernels.fill_floats, "*i64 i64 i32 fp32 fp32", constants)
    for name, dtype in INTEGERS.items():
        constants = {"dtype": dtype, "block": CONTENT_BLOCK}
        yield _Recipe(f"fill_{name}", kernels.fill_integers, "*i64 i64 i64 i64", constants)
    for name in ORDERED_DTYPES:
        constants = {"dtype": INTEGERS[name], "block": CONTENT_BLOCK}
        yield _Recipe(f"place_{name}", kernels.place_integers, "*i64 i64 i64 i64 i64", constants)
    yield _Recipe("poison", kernels.poison, "*i64", {"block": BYTES_BLOCK}, num_warps=8)
    yield _Recipe("count_unpoisoned", kernels.count_unpoisoned, "*i64 *i64", {"block": WORDS_BLOCK}, num_warps=8)
    yield _Recipe("sum_up", kernels.sum_up, "*i64 i64", {"block": SUM_BLOCK})
    yield _Recipe("fill_zones", kernels.fill_zones, "*i64 i64", {"block": ZONE_BLOCK})
    yield _Recipe("count_zones", kernels.count_zones, "*i64 i64 *i64", {"block": ZONE_BLOCK})
    yield _Recipe("flush", kernels.flush, "*i32", {"block": FLUSH_BLOCK})
    yield _Recipe("delay", kernels.delay, "i64 *i64", num_warps=1)


_RECIPES = tuple(_recipes())
SUPPORT: tuple[str, ...] = tuple(recipe.name for recipe in _RECIPES)
"""Names of the kernels: `fill_` or `place_` and a dtype for contents, function names in `kernels` for the others."""

Spread: TypeAlias = Callable[[Callable[[str], SupportKernel], Sequence[str]], Iterable[SupportKernel]]
"""Compiles each name by a function that can be pickled, in order: `map`, or that of a pool of processes."""


def compile_support(target: str, spread: Spread = map) -> dict[str, SupportKernel]:
    """Compile every kernel for a target, except those that the target cannot run.

    Raises:
        ToolMissing: If the target is not one of NVIDIA's.
    """
    capability = sheet_of(target).capability
    names = [name for name in SUPPORT if capability >= _NEWER.get(name, (0, 0))]
    return dict(zip(names, spread(partial(_compile_one, target), names), strict=True))


def compile_copies(target: str) -> dict[str, SupportKernel]:
    """Compile the copy kernel with each block size for a target. Judging does not need them.

    Raises:
        ToolMissing: If the target is not one of NVIDIA's.
    """
    sheet, even = sheet_of(target), ("read", "written")
    return {
        copy_name(block): compile_kernel(sheet, kernels.copy, "*i32 i64 *i32 i64", {"block": block}, even=even)
        for block in COPY_BLOCKS
    }


def copy_name(block: int) -> str:
    """Return the name of the copy kernel with a block size."""
    return f"copy_{block}"


def _compile_one(target: str, name: str) -> SupportKernel:
    recipe = next(recipe for recipe in _RECIPES if recipe.name == name)
    return compile_kernel(
        sheet_of(target), recipe.function, recipe.signature, recipe.constants, num_warps=recipe.num_warps
    )


def sheet_of(target: str) -> Target:
    """Return the specification of a target that support kernels can be compiled for.

    Raises:
        ToolMissing: If the target is not one of NVIDIA's.
    """
    sheet = TARGETS.get(target)
    if sheet is None or sheet.vendor != "nvidia":
        raise ToolMissing(f"there are no support kernels for target '{target}'; only NVIDIA targets are supported")
    return sheet


def compile_kernel(
    sheet: Target,
    function: JITFunction,
    types: str,
    constants: Mapping[str, Any] = MappingProxyType({}),
    *,
    even: Sequence[str] = (),
    num_warps: int = 4,
) -> SupportKernel:
    """Compile one kernel. All pointers, and the numbers named `even`, are multiples of 16.

    Args:
        sheet: Specification of the target.
        function: A jit function whose constants come last.
        types: Triton's type names of its other parameters, in order, separated by spaces.
        constants: Values of its constants, by name.
        even: Names of parameters.
        num_warps: Warps per program.
    """
    names = function.arg_names
    kinds = dict(zip(names, [*types.split(), *("constexpr" for _ in constants)], strict=True))
    aligned = [index for index, name in enumerate(names) if kinds[name].startswith("*") or name in even]
    source = ASTSource(
        function,
        kinds,
        {(names.index(name),): value for name, value in constants.items()},
        {(index,): [["tt.divisibility", 16]] for index in aligned},
    )
    target = GPUTarget("cuda", sheet.arch, sheet.warp_size)
    compiled = triton.compile(source, target=target, options={"num_warps": num_warps, "enable_fp_fusion": True})
    metadata = compiled.metadata
    return SupportKernel(compiled.asm["cubin"], metadata.name, metadata.shared, metadata.num_warps)
