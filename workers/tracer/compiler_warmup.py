"""Warm-up of the compiler: one compilation in the process that forks, so that its children find it ready."""

from typing import Any

import triton
import triton.language as tl
from triton.backends.compiler import BaseBackend
from triton.compiler.compiler import ASTSource

from workers.targets import Target
from workers.tracer.compiler import Compiled, Compiler
from workers.tracer.fake_device import gpu_target


def _scale(source: tl.tensor, target: tl.tensor, count: tl.tensor, block: tl.constexpr) -> None:
    offsets = tl.program_id(0) * block + tl.arange(0, block)
    inside = offsets < count
    total = tl.sum(tl.load(source + offsets, inside, 0.0).to(tl.float32), 0)
    tl.store(target + offsets, tl.exp(total) * offsets, inside)


def rehearse(target: Target) -> Compiled:
    """Compile a small kernel for a target."""
    signature = {"source": "*bf16", "target": "*fp32", "count": "i32", "block": "constexpr"}
    attributes: dict[Any, Any] = {(0,): BaseBackend.parse_attr("D")}
    source = ASTSource(triton.jit(_scale), signature, {(3,): 128}, attributes)
    return Compiler(target).compile(source, gpu_target(target), {"num_warps": 4})
