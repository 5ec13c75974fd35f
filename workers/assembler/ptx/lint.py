"""Rules that a kernel's PTX must keep before it is assembled.

A launch plan describes a candidate completely only if its kernels cannot keep state between launches, read clocks, or
reach the host or other kernels. ptxas checks none of this. The rules are those of the kernel contract; everything that
they do not allow is refused.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from math import prod

from workers.assembler.machine import ENTRY
from workers.assembler.ptx.canonical import CanonicalText, print_module
from workers.assembler.ptx.constants import freeze
from workers.assembler.ptx.flow import bound_jumps, check_calls
from workers.assembler.ptx.instructions import (
    PRAGMAS,
    REFUSED_HEADS,
    REFUSED_MODIFIERS,
    REFUSED_REGISTERS,
    SPECIAL_REGISTERS,
    is_known,
)
from workers.assembler.ptx.parameters import check_parameters
from workers.assembler.ptx.parser import parse
from workers.assembler.ptx.scope import BlockNames, NameScope, scopes
from workers.assembler.ptx.syntax import PtxFunction, PtxInstruction, PtxLabel, PtxModule, PtxPragma, PtxVariable
from workers.assembler.refusal import AssemblyRefused
from workers.protocol import Kernel

WARP_THREADS = 32
"""Threads of a warp on every NVIDIA target."""

MOST_FUNCTIONS = 64
"""Maximum number of functions; honest kernels have the entry and one for each helper that is not inlined."""
MOST_VARIABLES = 64
"""Maximum number of module-scope variables; honest kernels have a few tables, and one for shared memory."""
_TRY_WAIT_OPERANDS = 3
"""Operands of a wait: its result, the barrier, and its phase. A fourth is a time."""

_LIMITS = ("reqntid", "maxnreg", "minnctapersm", "explicitcluster", "reqnctapercluster")
_EXTERNS = {
    "vprintf": "the kernel prints; remove tl.device_print",
    "__assertfail": "the kernel asserts on the device; remove tl.device_assert",
    "malloc": "the kernel allocates device memory; allocate on the host instead",
    "free": "the kernel frees device memory; allocate on the host instead",
}


@dataclass(frozen=True, slots=True)
class LintedPtx:
    """PTX that keeps the rules: the module as it will be assembled, its entry, and its canonical text."""

    module: PtxModule
    entry: PtxFunction
    canonical: CanonicalText


def lint(kernel: Kernel, arch: str, rules: "Mapping[str, Rule] | None" = None) -> LintedPtx:
    """Check a kernel's PTX against the rules and bring it into canonical form.

    Args:
        kernel: The kernel as traced.
        arch: Required architecture of the text, such as `sm_90a`.
        rules: Rules to check; all of `RULES` if None.

    Raises:
        AssemblyRefused: With the rule that is broken and, where known, the candidate's line.
    """
    module = parse(kernel.assembly)
    if module.target != arch or module.address_bits != 64:
        raise AssemblyRefused(
            f"the assembly is for {module.target} with {module.address_bits}-bit addresses, not for {arch}"
        )
    for rule in (RULES if rules is None else rules).values():
        rule(module, kernel)
    frozen = _freeze(module, frozenset(item.name for item in module.variables if _is_table(item)))
    return LintedPtx(frozen, _entry_of(frozen), print_module(frozen))


def _is_table(item: PtxVariable) -> bool:
    return item.space == "const" or (item.space == "global" and item.values is not None)


def _entry_of(module: PtxModule) -> PtxFunction:
    entry = next((item for item in module.functions if item.entry), None)
    if entry is None or sum(item.entry for item in module.functions) != 1 or entry.body is None:
        raise AssemblyRefused("the assembly must have exactly one entry")
    return entry


def _check_names(module: PtxModule, kernel: Kernel) -> None:
    _check_counts(module)
    names = [item.name for item in module.variables]
    names += [item.name for item in module.functions if item.body is not None]
    declared = {item.name for item in module.functions if item.body is None}
    if len(set(names)) != len(names) or declared & {item.name for item in module.variables}:
        raise AssemblyRefused("the assembly declares a name twice")
    dotted = next((name for name in names if "." in name or "::" in name), None)
    if dotted is not None:
        raise AssemblyRefused(
            f"the assembly declares '{dotted}'; names of functions and variables have no dots or colons"
        )
    for function in module.functions:
        if function.linkage == "extern" or (function.name in declared and function.name not in names):
            reason = _EXTERNS.get(function.name, f"the kernel calls '{function.name}', which it does not define")
            raise AssemblyRefused(reason, _line_of_call(module, function.name))


def _check_counts(module: PtxModule) -> None:
    if len(module.functions) > MOST_FUNCTIONS:
        raise AssemblyRefused(
            f"the kernel has {len(module.functions)} functions; the maximum is {MOST_FUNCTIONS}: let Triton inline "
            "helpers (no noinline=True)"
        )
    if len(module.variables) > MOST_VARIABLES:
        raise AssemblyRefused(
            f"the kernel declares {len(module.variables)} variables in module-scope memory; the maximum is "
            f"{MOST_VARIABLES}: pass tables as tensors"
        )


def _line_of_call(module: PtxModule, name: str) -> int | None:
    calls = (item for function in module.functions for item in function.instructions if item.head == "call")
    return next((item.line for item in calls if (name,) in item.operands), None)


def _check_variables(module: PtxModule, kernel: Kernel) -> None:
    for item in module.variables:
        if item.space == "shared" and item.linkage == "extern" and item.extents == ("",) and item.values is None:
            continue
        if item.space not in ("global", "const"):
            raise AssemblyRefused(f"the kernel declares module-scope .{item.space} memory '{item.name}'", item.line)
        if item.linkage:
            reason = f"the kernel declares .{item.linkage} memory '{item.name}' that other kernels could reach"
            raise AssemblyRefused(reason, item.line)
        if item.values is None:
            raise AssemblyRefused(
                f"the kernel declares module-scope memory '{item.name}' without a value: it could only hold state "
                "between launches",
                item.line,
            )


def _check_functions(module: PtxModule, kernel: Kernel) -> None:
    for function in module.functions:
        if any(item.space != "param" for item in (*function.parameters, *function.results)):
            raise AssemblyRefused(
                f"the function '{function.name}' has a parameter outside of .param memory", function.line
            )
        linkages = ("visible",) if function.entry else ("",)
        if function.linkage not in linkages:
            raise AssemblyRefused(
                f"the function '{function.name}' is .{function.linkage or 'not visible'}", function.line
            )
        for name in function.limits:
            if name not in _LIMITS or not function.entry:
                raise AssemblyRefused(f"the function '{function.name}' carries '.{name}'", function.line)


def _check_instructions(module: PtxModule, kernel: Kernel) -> None:
    for function in module.functions:
        for item in function.instructions:
            _check_instruction(item)


def _check_references(module: PtxModule, kernel: Kernel) -> None:
    for scope in scopes(module):
        for item, names in scope.steps():
            for token in _names_used(item, scope):
                _check_name(token, item, names)


def _check_parameters(module: PtxModule, kernel: Kernel) -> None:
    for scope in scopes(module):
        check_parameters(scope)


def _check_calls(module: PtxModule, kernel: Kernel) -> None:
    check_calls(module)


def _check_bodies(module: PtxModule, kernel: Kernel) -> None:
    """Check everything in functions except instructions."""
    for scope in scopes(module):
        function = scope.function
        for item in function.body.walk() if function.body else ():
            if isinstance(item, PtxPragma) and not PRAGMAS.fullmatch(item.text):
                raise AssemblyRefused(f"the kernel carries the pragma {item.text!r}", function.line)
            if isinstance(item, PtxLabel):
                _check_targets(item, scope)
            if isinstance(item, PtxVariable) and (
                item.space not in ("reg", "local", "param") or item.values is not None
            ):
                raise AssemblyRefused(
                    f"the kernel declares .{item.space} memory '{item.name}' inside a function", item.line
                )


def _check_targets(label: PtxLabel, scope: NameScope) -> None:
    unknown = [target for target in label.targets if target not in scope.labels]
    if unknown:
        raise AssemblyRefused(f"the kernel jumps to '{unknown[0]}', which it does not have")


def _check_instruction(item: PtxInstruction) -> None:
    if item.head in REFUSED_HEADS:
        raise AssemblyRefused(f"'{item.opcode}': {REFUSED_HEADS[item.head]}", item.line)
    if not is_known(item):
        raise AssemblyRefused(f"'{item.opcode}' is not on the list of instructions that a kernel may use", item.line)
    for word in item.modifiers:
        if word in REFUSED_MODIFIERS:
            raise AssemblyRefused(f"'{item.opcode}': {REFUSED_MODIFIERS[word]}", item.line)
    if item.head == "mbarrier" and "try_wait" in item.modifiers and len(item.operands) > _TRY_WAIT_OPERANDS:
        raise AssemblyRefused(f"'{item.opcode}' is a timed wait, which is a clock; leave the time out", item.line)


def _names_used(item: PtxInstruction, scope: NameScope) -> Iterator[str]:
    """Yield the names among the operands, except the target of a call, which is checked here."""
    operands = item.operands
    if item.head == "call":
        at = 1 if operands and operands[0][0] == "(" else 0
        called = operands[at] if at < len(operands) else ()
        if len(called) != 1 or called[0] not in scope.functions or len(operands) > at + 2:
            raise AssemblyRefused(
                "the kernel makes an indirect call; only functions of its own may be called", item.line
            )
        operands = (*operands[:at], *operands[at + 1 :])
    for operand in (*operands, item.guard):
        yield from (token for token in operand if token[0].isalpha() or token[0] in "_$%")


def _check_name(token: str, item: PtxInstruction, names: BlockNames) -> None:
    if token in SPECIAL_REGISTERS or token in ("_", "WARP_SZ") or names.declares(token):
        return
    for name, reason in REFUSED_REGISTERS.items():
        if token.startswith(name):
            raise AssemblyRefused(f"the kernel reads {token}: {reason}", item.line)
    raise AssemblyRefused(f"'{item.opcode}' names '{token}', which the kernel neither declares nor may read", item.line)


def _freeze(module: PtxModule, arrays: frozenset[str]) -> PtxModule:
    used = {
        token for item in module.functions for step in item.instructions for part in step.operands for token in part
    }
    variables = tuple(
        replace(item, space="const") if item.name in arrays else item
        for item in module.variables
        if item.name in used or item.space == "shared"
    )
    functions = tuple(bound_jumps(freeze(item, arrays)) for item in module.functions)
    return replace(module, variables=variables, functions=functions)


def _check_entry(module: PtxModule, kernel: Kernel) -> None:
    entry = _entry_of(module)
    if entry.name != ENTRY:
        raise AssemblyRefused(f"the entry is called '{entry.name}', not '{ENTRY}'")
    threads = prod(entry.limits.get("reqntid", (0,)))
    if threads != kernel.num_warps * WARP_THREADS:
        raise AssemblyRefused(f"the assembly declares {threads} threads, the plan {kernel.num_warps} warps of 32")
    cluster = prod(entry.limits.get("reqnctapercluster", (1,)))
    if cluster != kernel.num_ctas:
        raise AssemblyRefused(f"the assembly declares clusters of {cluster}, the plan {kernel.num_ctas}")
    if entry.results:
        raise AssemblyRefused("the entry returns a value")


Rule = Callable[[PtxModule, Kernel], None]
"""Check of an assembly against one rule; raises `AssemblyRefused`."""

RULES: dict[str, Rule] = {
    "names": _check_names,
    "variables": _check_variables,
    "functions": _check_functions,
    "instructions": _check_instructions,
    "references": _check_references,
    "parameters": _check_parameters,
    "calls": _check_calls,
    "bodies": _check_bodies,
    "entry": _check_entry,
}
"""The rules, in the order of their checks. Only tests remove one."""
