"""Recompilation: the interpreted source is compiled again for the plan's launches, and must yield the plan's kernels.

Without it a candidate could show the interpreter another kernel than the compiler: host code can change the meaning of
a kernel's text, and the compiler itself. Here no host code has run.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import code_generator
from triton.compiler.compiler import ASTSource
from triton.language import core
from triton.runtime.jit import JITCallable, JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

from workers.interpreter.expression_ids import number
from workers.interpreter.extract import MODULE_NAME, ExtractedModule
from workers.interpreter.faults import NotInterpretable
from workers.interpreter.hints import check_hints
from workers.interpreter.launch import constant_of, whole_arguments
from workers.interpreter.ptx_equality import are_alike
from workers.interpreter.record import Record, RecordingGenerator, record_module
from workers.protocol import HostDescriptor, Kernel, Launch, Number, Plan, Pointer
from workers.protocol.plan import spread
from workers.targets import TARGETS
from workers.tracer.compiler import Compiled, Compiler
from workers.tracer.fake_device import drive
from workers.tracer.launches import fusion
from workers.tracer.refusal import TraceRefused

_BUFFER_BITS = 40
# Buffers have fake addresses 2**40 bytes apart, aligned as during tracing.
_OPTIONS = {"num_stages": "num_stages", "num_ctas": "num_ctas", "maxnreg": "max_registers"}
# Options of a launch, and their names in a compiled kernel.
_WARPS = (32, 16, 8, 4, 2, 1)
# Possible requests of a launch. A compiled kernel's count also includes specialised warps.
_TRIES = 8
# Maximum compilations of a kernel while only its text differs: with specialised warps, Triton 3.7 places some barriers
# at random.
_ERRORS = (ArithmeticError, AssertionError, AttributeError, LookupError, NameError, RuntimeError, TypeError, ValueError)


class _Pointer:
    """A pointer as Triton's specialisation sees it: a dtype, an address and a size."""

    def __init__(self, pointer: Pointer | HostDescriptor, plan: Plan) -> None:
        self.dtype = getattr(torch, pointer.dtype)
        self._address = (pointer.buffer + 1 << _BUFFER_BITS) + pointer.offset_bytes
        self._bytes = plan.buffers[pointer.buffer].bytes

    def data_ptr(self) -> int:
        return self._address

    def ptr_range(self) -> int:
        return self._bytes


@dataclass(frozen=True)
class _Recorded(Compiled):
    """A compiled kernel, and the compiler's record of it."""

    record: Record


class _Recorder(Compiler):
    def compile(
        self, source: ASTSource, target: GPUTarget, options: Mapping[str, object], _env_vars: object = None
    ) -> _Recorded:
        compiled = super().compile(source, target, options)
        return _Recorded(**vars(compiled), record=RecordingGenerator.record)


def recompile(
    taken: ExtractedModule, target: str, plans: Sequence[Plan], kernels: Mapping[str, Kernel]
) -> Mapping[str, Record]:
    """Compile every kernel that the plans launch, and compare it with theirs.

    Args:
        taken: The candidate.
        target: The plans' target.
        plans: The plans.
        kernels: Their kernels, by digest.

    Returns:
        The compiler's records, by `launch_key` a launch. Definitions get the same numbers.

    Raises:
        NotInterpretable: If a kernel differs, or has hints that only the compiler would apply.
    """
    _Recorder(TARGETS[target]).install()
    record_module(MODULE_NAME)
    drive(TARGETS[target])
    refuse_name_clashes()
    misplaced = check_hints()
    records: dict[str, Record] = {}
    for plan in plans:
        for launch in plan.launches:
            try:
                records[launch_key(launch)] = _matching_record(taken, launch, plan, kernels[launch.kernel])
                if misplaced:
                    raise NotInterpretable(misplaced[0])
            except NotInterpretable as stopped:
                stopped.line = stopped.line or launch.line
                raise
    for value in taken.namespace.values() if records else ():
        if isinstance(value, JITFunction) and value.fn in taken.definitions:
            _number(taken, value)
    return records


def _number(taken: ExtractedModule, kernel: JITFunction) -> None:
    """Number the interpreted tree like the compiled one, while Triton's modules are still unchanged."""
    definition, (compiled,) = taken.definitions[kernel.fn], kernel.parse().body
    if list(map(ast.dump, compiled.body)) != list(map(ast.dump, definition.body)):
        raise NotInterpretable(f"Triton's compiler reads another text of '{definition.name}'")
    number(definition, taken.namespace)


def launch_key(launch: Launch) -> str:
    """Return a key that distinguishes launches whose kernels are compiled differently."""
    return launch.model_dump_json(exclude={"grid", "line"})


def _matching_record(taken: ExtractedModule, launch: Launch, plan: Plan, expected: Kernel) -> Record:
    """Compile a launch's kernel with all possible options until the result is the expected one."""
    kernel, failure = _kernel(taken, launch.function), ""
    for warps in (warps for warps in _WARPS if warps <= expected.num_warps):
        for again in range(_TRIES):
            try:
                if again:
                    kernel.device_caches.clear()
                compiled = _compile(kernel, taken, launch, plan, expected, warps)
            except (TraceRefused, *_ERRORS) as error:
                said = str(error).partition("\n")[0]
                failure = f"{launch.function} does not compile without host code: {said}{_missing_values(taken)}"
                if expected.num_ctas > 1:
                    continue  # Triton 3.7 fails at random here, and emits code in a random order.
                break
            _require_named(launch, compiled)
            if compiled.digest == launch.kernel:
                return compiled.record
            failure = ""
            if compiled.kernel != expected.model_copy(update={"assembly": compiled.kernel.assembly}):
                break
            if expected.num_ctas > 1 and are_alike(compiled.kernel.assembly, expected.assembly):
                return compiled.record
    raise NotInterpretable(failure or _explain(taken, launch))


def _require_named(launch: Launch, compiled: Compiled) -> None:
    """Compare the compile-time constants and the types of other arguments with the plan."""
    signature: dict[str, str] = {}
    for parameter, kind in compiled.source.signature.items():
        signature |= {name: str(each) for name, each in spread(parameter, kind)}
    claimed = dict.fromkeys(launch.constants, "constexpr")
    for name in [name for name in claimed if name not in signature]:
        # Parts of a tuple that is one constant.
        claimed[name.partition(".")[0]] = claimed.pop(name)
    for name, argument in zip(launch.parameters, launch.arguments, strict=False):
        start = "*" if isinstance(argument, Pointer) else "tensordesc<"
        is_memory = not isinstance(argument, Number) and signature.get(name, "").startswith(start)
        claimed[name] = argument.type if isinstance(argument, Number) else signature[name] if is_memory else "*"
    # The machine code knows the order alone: exchanged names would be interpreted, and not what runs on a card.
    order = [name for name, kind in signature.items() if kind != "constexpr"]
    if list(launch.parameters) != order or len(order) != len(launch.arguments) or claimed != signature:
        raise NotInterpretable(f"the plan passes {launch.function} something else than it is compiled for")


def refuse_name_clashes() -> None:
    """Make the compiler refuse to confuse functions whose mangled names are equal."""
    known: dict[str, object] = {}
    mangle = code_generator.mangle_fn

    def watched(name: str, types: Sequence[object], *more: object) -> str:
        mangled: str = mangle(name, types, *more)
        apart = more[0] if more and isinstance(more[0], Mapping) else {}  # Triton 3.6 passes constants separately.
        constants = (core.constexpr_type(core._unwrap_if_constexpr(value)) for value in apart.values())
        if known.setdefault(mangled, (meant := (*map(_told, (*types, *constants)), *map(str, apart)))) != meant:
            raise NotInterpretable(f"Triton takes two specialisations of {name} for one: pass it other constants")
        return mangled

    code_generator.mangle_fn = watched


def _told(kind: object) -> object:
    """Convert a type to a comparable value."""
    if isinstance(kind, core.tuple_type):
        return (kind.fields and tuple(kind.fields), *map(_told, kind.types))
    if not isinstance(kind, core.constexpr_type):
        return str(kind)
    value = kind.value
    if isinstance(value, tuple):
        return tuple(_told(core.constexpr_type(item)) for item in value)
    return type(value), repr(value), id(value) if isinstance(value, JITCallable) else 0


def _compile(
    kernel: JITFunction, taken: ExtractedModule, launch: Launch, plan: Plan, expected: Kernel, warps: int
) -> _Recorded:
    """Compile a launch's kernel, specialised by Triton for the launch's arguments and options."""
    constants = {name: constant_of(value, partial(_kernel, taken)) for name, value in launch.constants.items()}
    passed = [
        argument.value if isinstance(argument, Number) else _memory(argument, plan) for argument in launch.arguments
    ]
    options = {"num_warps": warps, **{name: getattr(expected, field) for name, field in _OPTIONS.items()}}
    options |= fusion(kernel, launch.options)
    given = {name: value for name, value in options.items() if name not in kernel.arg_names and value is not None}
    compiled: _Recorded = kernel.run(
        grid=launch.grid, warmup=True, **whole_arguments(launch, constants, passed), **given
    )
    return compiled


def _memory(argument: Pointer | HostDescriptor, plan: Plan) -> _Pointer | TensorDescriptor:
    pointer = _Pointer(argument, plan)
    if isinstance(argument, Pointer):
        return pointer
    sizes = [list(each) for each in (argument.shape, argument.strides, argument.block)]
    flags = () if argument.tf32 is None else (argument.tf32,)
    return TensorDescriptor(pointer, *sizes, "nan" if argument.nan_fill else "zero", *flags)


def _kernel(taken: ExtractedModule, name: str) -> JITFunction:
    kernel = taken.namespace.get(name.rpartition(".")[2])
    if isinstance(kernel, FunctionType):
        raise NotInterpretable(
            f"the launched kernel '{name}' is a plain function without host code's decorators; write "
            "`@triton.jit` right above it, and `@triton.autotune(...)` above that, to have it interpreted"
        )
    if not isinstance(kernel, JITFunction):
        raise NotInterpretable(
            f"the launched kernel '{name}' is no function at the top level of the module; define it there to have it "
            "interpreted"
        )
    return kernel


def _explain(taken: ExtractedModule, launch: Launch) -> str:
    return (
        f"{launch.function} as it is written compiles to another kernel than the plan's: host code changed what it "
        f"means, or the worker that traced it has another version of Triton{_missing_values(taken)}"
    )


def _missing_values(taken: ExtractedModule) -> str:
    """Name the values that kernels use but host code binds, for a message."""
    used = {name for item in taken.definitions.values() for name in _free(item)}
    lines = [f"'{name}' in line {line}" for name, line in taken.left_out.items() if name in used]
    if not lines:
        return ""
    return (
        f"; values that only host code computes are missing: {', '.join(lines)}. Bind each name that kernels use once, "
        "at the top level, to a literal or to arithmetic of constants"
    )


def _free(function: ast.FunctionDef) -> set[str]:
    """Return names that a function's body reads and does not bind."""
    names = [node for statement in function.body for node in ast.walk(statement) if isinstance(node, ast.Name)]
    bound = {node.id for node in names if not isinstance(node.ctx, ast.Load)}
    return {node.id for node in names} - bound - {node.arg for node in ast.walk(function) if isinstance(node, ast.arg)}
