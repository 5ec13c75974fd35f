"""Kernels as candidates write them, good and bad, and their way to assembly text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.language.extra import libdevice

from workers.protocol import Kernel
from workers.targets import TARGETS


@triton.jit
def rmsnorm(x, weight, y, n, eps, width: tl.constexpr):
    columns = tl.arange(0, width)
    mask = columns < n
    row = tl.load(x + tl.program_id(0) * n + columns, mask=mask, other=0).to(tl.float32)
    scaled = row * tl.rsqrt(tl.sum(row * row, 0) / n + eps) * tl.load(weight + columns, mask=mask, other=0)
    tl.store(y + tl.program_id(0) * n + columns, scaled.to(tl.bfloat16), mask=mask)


@triton.jit
def root(x, y, n, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    tl.store(y + at, tl.sqrt(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def wave(x, y, n, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    tl.store(y + at, libdevice.sin(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit
def matmul(a, b, c, m, n, k, tile_m: tl.constexpr, tile_n: tl.constexpr, tile_k: tl.constexpr):
    rows, columns = tl.program_id(0) * tile_m + tl.arange(0, tile_m), tl.program_id(1) * tile_n + tl.arange(0, tile_n)
    total = tl.zeros((tile_m, tile_n), tl.float32)
    for start in range(0, k, tile_k):
        inner = start + tl.arange(0, tile_k)
        left = tl.load(a + rows[:, None] * k + inner[None, :], mask=inner[None, :] < k, other=0)
        right = tl.load(b + inner[:, None] * n + columns[None, :], mask=inner[:, None] < k, other=0)
        total = tl.dot(left, right, total)
    tl.store(c + rows[:, None] * n + columns[None, :], total.to(tl.bfloat16), mask=rows[:, None] < m)


@triton.jit
def accumulate(x, y, n, width: tl.constexpr):
    at = tl.program_id(0) * width + tl.arange(0, width)
    tl.atomic_add(y, tl.sum(tl.load(x + at, mask=at < n, other=0), 0))


@triton.jit
def doubled(x, y, m, n, tile_m: tl.constexpr, tile_n: tl.constexpr):
    source = tl.make_tensor_descriptor(x, [m, n], [n, 1], [tile_m, tile_n])
    target = tl.make_tensor_descriptor(y, [m, n], [n, 1], [tile_m, tile_n])
    at = [tl.program_id(0) * tile_m, tl.program_id(1) * tile_n]
    target.store(at, source.load(at) * 2)


@triton.jit
def striding(x, y, n, width: tl.constexpr):
    for block in range(tl.program_id(0), tl.cdiv(n, width), tl.num_programs(0)):
        at = block * width + tl.arange(0, width)
        tl.store(y + at, tl.exp(tl.load(x + at, mask=at < n)), mask=at < n)


@triton.jit(noinline=True)
def put(y, value):
    tl.store(y, value)


@triton.jit
def calling(x, y, bias):
    put(y, tl.load(x) + bias)


@triton.jit
def printing(x, y, n, width: tl.constexpr):
    at = tl.arange(0, width)
    value = tl.load(x + at, mask=at < n)
    tl.device_print("value", value)
    tl.store(y + at, value, mask=at < n)


@triton.jit
def asserting(x, y, n, width: tl.constexpr):
    at = tl.arange(0, width)
    value = tl.load(x + at, mask=at < n)
    tl.device_assert(value > 0)
    tl.store(y + at, value, mask=at < n)


@triton.jit
def timing(y, width: tl.constexpr):
    at = tl.arange(0, width)
    ticks = tl.inline_asm_elementwise("mov.u32 $0, %clock;", "=r", [], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(y + at, ticks)


@triton.jit
def crossing(x, y, width: tl.constexpr):
    at = tl.arange(0, width)
    tl.atomic_add(y + at, tl.load(x + at), scope="sys")


@triton.jit
def scalars(y, a, b, c, d, e, f, g, h):
    tl.store(y, a.to(tl.float32) + b + c + d + e + f + g + h)


BF16, F32 = "*bf16", "*fp32"


@dataclass(frozen=True)
class Example:
    """One specialisation of a kernel."""

    function: Any
    signature: Mapping[str, str]
    constants: Mapping[str, int] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)


FLAT = {"x": F32, "y": F32, "n": "i32"}
SCALARS = dict(zip("abcdefgh", ("fp16", "bf16", "fp32", "fp64", "i1", "i8", "i16", "i64"), strict=True))
EXAMPLES = {
    "rmsnorm": Example(rmsnorm, {"x": BF16, "weight": BF16, "y": BF16, "n": "i32", "eps": "fp32"}, {"width": 4096}),
    "root": Example(root, FLAT, {"width": 1024}),
    "wave": Example(wave, FLAT, {"width": 128}),
    "matmul": Example(
        matmul,
        {"a": BF16, "b": BF16, "c": BF16, "m": "i32", "n": "i32", "k": "i32"},
        {"tile_m": 128, "tile_n": 128, "tile_k": 64},
        {"num_warps": 8, "num_stages": 3},
    ),
    "small_matmul": Example(
        matmul,
        {"a": BF16, "b": BF16, "c": BF16, "m": "i32", "n": "i32", "k": "i32"},
        {"tile_m": 32, "tile_n": 32, "tile_k": 32},
        {"num_stages": 3},
    ),
    "accumulate": Example(accumulate, FLAT, {"width": 1024}),
    "doubled": Example(doubled, {"x": BF16, "y": BF16, "m": "i32", "n": "i32"}, {"tile_m": 64, "tile_n": 64}),
    "striding": Example(striding, FLAT, {"width": 1024}),
    "calling": Example(calling, {"x": F32, "y": F32, "bias": "fp32"}),
    "printing": Example(printing, FLAT, {"width": 128}),
    "asserting": Example(asserting, FLAT, {"width": 128}, {"debug": True}),
    "timing": Example(timing, {"y": "*i32"}, {"width": 128}),
    "crossing": Example(crossing, {"x": F32, "y": F32}, {"width": 128}),
    "scalars": Example(scalars, {"y": F32, **SCALARS}),
}


@cache
def compiled(name: str, target: str = "sm_90") -> Kernel:
    """An example's assembly text under the canonical entry name, as a trace would carry it."""
    example, sheet = EXAMPLES[name], TARGETS[target]
    signature = {**example.signature, **dict.fromkeys(example.constants, "constexpr")}
    aligned = [kind.startswith("*") or kind == "i32" for kind in example.signature.values()]
    source = ASTSource(
        fn=example.function,
        signature=signature,
        constexprs=dict(example.constants),
        attrs={(index,): [["tt.divisibility", 16]] for index, divides in enumerate(aligned) if divides},
    )
    backend = "cuda" if sheet.vendor == "nvidia" else "hip"
    machine = GPUTarget(backend, sheet.arch, sheet.warp_size)
    with TemporaryDirectory() as folder, triton.knobs.cache.scope():
        triton.knobs.cache.dir = folder
        done = triton.compile(source, target=machine, options=dict(example.options))
    language = "ptx" if sheet.vendor == "nvidia" else "amdgcn"
    return Kernel(
        language=language,
        assembly=re.sub(rf"\b{done.metadata.name}\b", "kernel", done.asm[language]),
        target=target,
        num_warps=done.metadata.num_warps,
        num_ctas=done.metadata.num_ctas,
        shared_bytes=done.metadata.shared,
    )
