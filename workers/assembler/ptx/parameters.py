"""Parameters of a PTX module's entry, and the instructions that may use them.

The memory of parameters has more in it: before them are the values of `%current_graph_exec`, `%gridid` and `%envreg`.
So parameters may only be loaded by name, within their size, and their addresses may not be used otherwise. The address
of a tensor map is the exception: the copy engine takes it, and nothing else may.
"""

import re
from collections.abc import Callable, Iterator
from math import prod
from typing import TypeAlias

from workers.assembler.machine import TENSOR_MAP_BYTES, EntryParameter
from workers.assembler.ptx.instructions import access_bytes
from workers.assembler.ptx.scope import BlockNames, NameScope, without_component
from workers.assembler.ptx.syntax import PtxInstruction, PtxVariable
from workers.assembler.refusal import AssemblyRefused

_ACCESS = re.compile(r"(ld|st)\.param(\.v[248])?\.[a-z]+\d+")
_TYPES = {f"{letter}{bits}": (letter, bits // 8) for letter in "busf" for bits in (8, 16, 32, 64)}


def read_parameter(item: PtxVariable) -> EntryParameter:
    """Read the parameter of a PTX declaration.

    Raises:
        AssemblyRefused: If Triton does not write such a declaration.
    """
    letter, size = _TYPES.get(item.type, ("", 0))
    if item.space != "param" or not letter or len(item.extents) > 1 or item.values is not None:
        raise AssemblyRefused(f"the entry takes '{item.name}' of a type that no launch passes")
    if item.extents:
        return EntryParameter(size * int(item.extents[0]), "bits")
    if "ptr" in item.attributes:
        return EntryParameter(size, "pointer")
    return EntryParameter(size, "float" if letter == "f" else "bits")


def check_parameters(scope: NameScope) -> None:
    """Check a function's uses of its parameters, and of those of its calls.

    Raises:
        AssemblyRefused: If a parameter is used other than in loads, calls and copies by a tensor map, or beyond its
            size.
    """
    taken = frozenset(item.name for item in scope.function.parameters)
    uses = TensorMapUses(scope)
    uses.check()
    for item, names in scope.steps():
        if id(item) in uses.addressing:
            continue
        spaces = [word for word in item.modifiers if word.partition("::")[0] == "param"]
        used = [name for name in _tokens(item) if _is_parameter(name, names)]
        if item.head in ("ld", "st") and spaces == ["param"]:
            _check_access(item, names, frozenset() if item.head == "ld" else taken)
        elif spaces or (used and (item.head != "call" or not taken.isdisjoint(used))):
            about = f"'{used[0]}'" if used else "memory of parameters"
            raise AssemblyRefused(
                f"'{item.opcode}' uses the address of {about}; parameters may only be loaded", item.line
            )


Register: TypeAlias = tuple[int, str]
"""A register: the declaration that its name means at a place, and the name."""


class TensorMapUses:
    """Uses of the addresses of a function's tensor maps, as Triton writes them.

        mov.b64 %rd1, kernel_param_0;     (Triton 3.9: mov.b32, then cvt.u64.u32)
        cvta.param.u64 %rd2, %rd1;
        cp.async.bulk.tensor. ... [%rd2, {%r1, %r2}] ...;

    Attributes:
        addressing: Identities of the instructions that take the addresses.
    """

    def __init__(self, scope: NameScope) -> None:
        """Follow the addresses from the entry's parameters of a tensor map's size; launches fill these with maps."""
        function = scope.function
        maps = {item.name for item in function.parameters if function.entry and _is_tensor_map(item)}
        self._steps = list(scope.steps()) if maps else []
        self._held: dict[Register, str] = {}
        self.addressing: set[int] = set()
        self._take(("mov.b64", "mov.b32"), "parameter", lambda name, _: name in maps)
        self._take(("cvt.u64.u32",), "parameter", self._holds("parameter"))
        self._take(("cvta.param.u64",), "generic", self._holds("parameter"))

    def check(self) -> None:
        """Check that nothing but copies of tensors uses the addresses.

        Raises:
            AssemblyRefused: If anything else does.
        """
        for item, names in self._steps:
            if id(item) not in self.addressing and any(
                _register(token, names) in self._held for token in self._others(item, names)
            ):
                raise AssemblyRefused(
                    f"'{item.opcode}' uses the address of a tensor map, which only copies of its tensor may: pass each "
                    "descriptor straight to its copies",
                    item.line,
                )

    def _take(self, opcodes: tuple[str, ...], kind: str, matches: Callable[[str, BlockNames], bool]) -> None:
        """Record the registers that unguarded instructions set to an address; these may do nothing else."""
        for item, names in self._steps:
            if item.opcode not in opcodes or item.guard or [len(each) for each in item.operands] != [1, 1]:
                continue
            (target,), (source,) = item.operands
            register = _register(target, names)
            if matches(source, names) and self._held.setdefault(register, kind) == kind:
                self.addressing.add(id(item))

    def _holds(self, kind: str) -> Callable[[str, BlockNames], bool]:
        return lambda name, names: self._held.get(_register(name, names)) == kind

    def _others(self, item: PtxInstruction, names: BlockNames) -> Iterator[str]:
        """Yield the names that an instruction uses, except the tensor map of a copy, `[map, {coordinates}]`."""
        copies = item.head == "cp" and {"bulk", "tensor"} <= set(item.modifiers)
        for operand in (*item.operands, item.guard):
            is_map = copies and operand[:1] == ("[",) and operand[2:3] == (",",)
            is_map = is_map and self._holds("generic")(operand[1], names)
            yield from (without_component(token) for token in (operand[2:] if is_map else operand))


def _register(name: str, names: BlockNames) -> Register:
    return id(names.find(name)), name


def _is_tensor_map(item: PtxVariable) -> bool:
    return bytes_of(item) == TENSOR_MAP_BYTES and item.type == "b8" and "align 64" in item.attributes


def _tokens(item: PtxInstruction) -> list[str]:
    return [without_component(token) for operand in (*item.operands, item.guard) for token in operand]


def _is_parameter(name: str, names: BlockNames) -> bool:
    variable = names.find(name)
    return variable is not None and variable.space == "param"


def _check_access(item: PtxInstruction, names: BlockNames, forbidden: frozenset[str]) -> None:
    """Check that a load or store at `[name]` or `[name+8]` is within the size of the name."""
    at = 1 if item.head == "ld" else 0
    address = item.operands[at] if len(item.operands) == 2 else ()
    elsewhere = item.operands[1 - at] if len(item.operands) == 2 else ()
    variable = names.find(address[1]) if len(address) in (3, 5) and address[0] == "[" else None
    named = variable is not None and variable.space == "param" and _ACCESS.fullmatch(item.opcode)
    if variable is None or not named or any(_is_parameter(name, names) for name in elsewhere):
        raise AssemblyRefused(f"'{item.opcode}' must name its parameter: [parameter] or [parameter+4]", item.line)
    if variable.name in forbidden:
        raise AssemblyRefused(f"'{item.opcode}' writes the parameter '{variable.name}'", item.line)
    offset, width = _offset(address), access_bytes(item)
    if offset is None or not width or offset + width > bytes_of(variable):
        raise AssemblyRefused(
            f"'{item.opcode}' reaches beyond the parameter '{variable.name}' of {bytes_of(variable)} bytes", item.line
        )


def _offset(address: tuple[str, ...]) -> int | None:
    """Return the number in `[name+8]`, 0 if there is none; None if no compiler would write it so."""
    if len(address) == 3:
        return 0
    sign, number = address[2:4]
    return int(number) if sign == "+" and re.fullmatch(r"0|[1-9]\d{0,5}", number) else None


def bytes_of(variable: PtxVariable) -> int:
    """Return the size of a parameter; 0 if its declaration leaves it open."""
    _, size = _TYPES.get(variable.type, ("", 0))
    return size * prod(int(extent or 0) for extent in variable.extents)
