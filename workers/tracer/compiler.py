"""The compiler: Triton's pipeline up to assembly text. The assembler makes machine code from it elsewhere.

It replaces `triton.compile`, so Triton's own specialisation decides what is compiled, and when again.
"""

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl
from triton._C.libtriton import ir
from triton.backends.compiler import BaseBackend, GPUTarget
from triton.compiler.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITCallable, JITFunction

from workers.protocol import Kernel, Outcome, Stage, TensorMap
from workers.targets import Target
from workers.tracer import libdevice
from workers.tracer.fake_device import gpu_target
from workers.tracer.refusal import SOURCE_NAME, TraceRefused, describe

ENTRY = "kernel"
"""Canonical name of every kernel's entry, so that a renamed function is the same kernel."""

_TENSOR_MEMORY_COLUMNS = 512
# Tensor memory of an SM from sm_100 on: the limit that Triton itself checks before a launch.
_THREADS_BLOCK = 1024
# Maximum threads of a program on every target; CUDA programming guide, HIP programming guide.
_MAP_ELEMENTS = {8: 10, 9: 8, 10: 9}
# Numbers of element types that differ between kernels and the driver's API (Triton's `TMA_DTYPE_DEVICE_TO_HOST`).
_SETTINGS: dict[str, Mapping[str, object]] = {
    "nvidia": {"enable_reflect_ftz": True, "default_dot_input_precision": "tf32"},
    "amd": {"allow_flush_denorm": False, "default_dot_input_precision": "ieee"},
}
# Triton's options that decide results and that no candidate may pass. Their defaults differ between releases.
_EXCERPT_CHARS = 200
# Longest part of a source line that a reason quotes.
_LOCATED = re.compile(rf"{re.escape(SOURCE_NAME)}\D{{0,3}}(?P<line>\d+):\d+\D{{0,4}}error: (?P<said>[^\n]+)")
_SAID = re.compile(r"error: ([^\n]+)")
_QUOTED = re.compile(r"(?P<kind>\w+)\((?P<quote>['\"])(?P<text>.*)(?P=quote)\)", re.DOTALL)
_CLUSTERS = "; Triton lowers neither sums along rows nor second products for clusters (num_ctas over 1): use num_ctas=1"
# Triton's own error does not mention clusters (tried with 3.7 for sm_90).
_LOWERING_ERRORS = (RuntimeError, AssertionError, ValueError, TypeError, LookupError)

Metadata = dict[str, Any]
"""Facts that Triton's stages report about a kernel, under Triton's names."""


@dataclass(frozen=True)
class Compiled:
    """A compiled kernel, returned in place of Triton's own object.

    Attributes:
        source: The specialisation: signature and constants.
        kernel: The kernel as plans carry it.
        digest: The kernel's identity.
        maps: Encodings of its tensor descriptors, in order; empty if it takes none or takes them decomposed.
    """

    source: ASTSource
    kernel: Kernel
    digest: str
    maps: tuple[TensorMap, ...]


class Compiler:
    """Compiler for one target; `spent_s` is the wall time that it took so far.

    With `lines`, assembly text names the candidate's lines. Such a kernel has another digest: moving it within its file
    would make it another kernel.
    """

    def __init__(self, target: Target, *, lines: bool = False) -> None:
        self._target = target
        self._lines = lines
        self.spent_s = 0.0

    def install(self) -> None:
        """Replace `triton.compile` for all further launches."""
        triton.compiler.compile = self.compile
        libdevice.install()

    def compile(
        self, source: ASTSource, target: GPUTarget, options: Mapping[str, object], _env_vars: object = None
    ) -> Compiled:
        """Compile one specialisation to assembly text.

        Raises:
            TraceRefused: `compile_error`, with the candidate's line and the remedy.
        """
        started = time.perf_counter()
        try:
            settled = {"enable_fp_fusion": True, **options, **_SETTINGS[self._target.vendor]}
            text, metadata = _lower(source, target, settled, lines=self._lines)
            kernel, maps = self._kernel(text, metadata), _maps(metadata)
        finally:
            self.spent_s += time.perf_counter() - started
        return Compiled(source, kernel, kernel.digest, maps)

    def _kernel(self, text: str, metadata: Metadata) -> Kernel:
        self._require_fits(metadata)
        return Kernel(
            language="ptx" if self._target.vendor == "nvidia" else "amdgcn",
            assembly=text,
            target=self._target.name,
            num_warps=metadata["num_warps"],
            num_ctas=metadata["num_ctas"],
            num_stages=metadata["num_stages"],
            shared_bytes=metadata["shared"] or 0,
            max_registers=metadata.get("maxnreg"),
            global_scratch_bytes=metadata.get("global_scratch_size") or 0,
            global_scratch_align=metadata.get("global_scratch_align") or 1,
            profile_scratch_bytes=metadata.get("profile_scratch_size") or 0,
        )

    def _require_fits(self, metadata: Metadata) -> None:
        target = self._target
        for needed, limit, what in (
            (metadata["shared"] or 0, target.shared_block_bytes, "bytes of shared memory"),
            (metadata.get("tmem_size") or 0, _TENSOR_MEMORY_COLUMNS, "columns of tensor memory"),
            (metadata["num_warps"] * target.warp_size, _THREADS_BLOCK, "threads"),
        ):
            if needed > limit:
                raise TraceRefused(
                    Outcome.COMPILE_ERROR,
                    f"a program needs {needed} {what} of the {limit} that {target.name} has: use smaller blocks, "
                    "fewer stages or fewer warps",
                    Stage.COMPILE,
                )


def _maps(metadata: Metadata) -> tuple[TensorMap, ...]:
    """Return the encodings of the kernel's tensor descriptors.

    Raises:
        TraceRefused: If one is of a kind that plans do not carry.
    """
    found = metadata.get("tensordesc_meta") or ()
    if any(said.get("fp4_padded") or said.get("is_im2col") for said in found):
        raise TraceRefused(
            Outcome.UNSUPPORTED_LAUNCH, "passes a padded 4-bit or im2col tensor descriptor: plans carry tiled ones only"
        )
    return tuple(
        TensorMap(
            element=_MAP_ELEMENTS.get(said["elem_type"], said["elem_type"]),
            box=tuple(said["block_size"]),
            swizzle=said["swizzle"],
        )
        for said in found
    )


def _lower(source: ASTSource, target: GPUTarget, options: Mapping[str, object], *, lines: bool) -> tuple[str, Metadata]:
    """Run Triton's stages up to the assembly text."""
    with triton.knobs.compilation.scope(), _diagnostics() as printed:
        triton.knobs.compilation.disable_line_info = not lines
        try:
            backend = make_backend(target)
            parsed = backend.parse_options(dict(options))
            stages: dict[str, Callable[[object, Metadata], object]] = {}
            backend.add_stages(stages, parsed, source.language)
            metadata: Metadata = {"target": target, **parsed.__dict__}
            module = _make_ir(source, target, backend, parsed)
            for name, stage in stages.items():
                if name != backend.binary_ext:
                    module = stage(module, metadata)
        except CompilationError as error:
            raise _refuse_source(error, source.fn) from None
        except _LOWERING_ERRORS as error:
            raise _refuse_lowering(error, printed(), source.fn, options.get("num_ctas")) from None
    return str(module), metadata


def _make_ir(source: ASTSource, target: GPUTarget, backend: BaseBackend, options: object) -> object:
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    function, name = source.fn, source.fn._repr
    function._repr = lambda _: ENTRY
    try:
        functions = backend.get_codegen_implementation(options)
        return source.make_ir(target, options, functions, backend.get_module_map(), context)
    finally:
        function._repr = name


@contextmanager
def _diagnostics() -> Iterator[Callable[[], str]]:
    """Capture standard error of the compiler's C++; yields a function that returns the text."""
    catcher, stderr = os.memfd_create("diagnostics"), os.dup(2)
    os.dup2(catcher, 2)
    try:
        yield lambda: os.pread(catcher, 1 << 16, 0).decode(errors="replace")
    finally:
        os.dup2(stderr, 2)
        os.close(stderr)
        os.close(catcher)


def _refuse_source(error: CompilationError, function: JITFunction) -> TraceRefused:
    """Turn an error of Triton's front end into a refusal: the innermost error, at the candidate's own line."""
    place, cause = error, error.__cause__
    while isinstance(cause, CompilationError):
        place, cause = cause, cause.__cause__
    said = f"{type(cause).__name__}: {describe(cause)}" if cause else _unquoted(place.error_message)
    source = place.src or ""
    lines, number = source.split("\n"), getattr(place.node, "lineno", None)
    if number is not None and number > len(lines):
        number = None  # For a noinline function, Triton mixes the text of one function with a line of another.
    line = lines[number - 1].strip()[:_EXCERPT_CHARS] if number else ""
    reason = f"{said} in `{line}`" if line else said
    return TraceRefused(Outcome.COMPILE_ERROR, reason, Stage.COMPILE, _file_line(function, source, number))


def _unquoted(message: str | None) -> str:
    """Rewrite an error that Triton quotes as `NameError('…')` to `NameError: …`."""
    quoted = _QUOTED.fullmatch(message or "")
    return f"{quoted['kind']}: {quoted['text']}" if quoted else message or "Triton refuses the kernel"


def _file_line(function: JITFunction, source: str, number: int | None) -> int | None:
    """Map a line of a jit function's text (the kernel or a function it calls) to a line of the candidate's file."""
    callees = [value for value in function.fn.__globals__.values() if isinstance(value, JITCallable)]
    for callee in (function, *callees):
        if number and callee.src == source:
            before = next(index for index, text in enumerate(callee.raw_src) if text.lstrip().startswith("def "))
            return int(callee.starting_line_number) + before + number - 1
    return None


def _refuse_lowering(error: BaseException, printed: str, function: JITFunction, ctas: object) -> TraceRefused:
    """Turn an error of a later stage into a refusal. Its C++ prints more than the exception says."""
    located, said = _LOCATED.search(printed), _SAID.search(printed)
    line = int(located["line"]) if located else int(function.starting_line_number)
    reason = located["said"] if located else said[1] if said else f"{type(error).__name__}: {describe(error)}"
    return TraceRefused(
        Outcome.COMPILE_ERROR, reason + (_CLUSTERS if ctas not in (None, 1) else ""), Stage.COMPILE, line
    )


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
