"""Constant arrays of a module: moved from writable `.global` memory to the constant bank.

LLVM places constant tables (libdevice's range reduction, `tl.sqrt`'s switches) in module-scope `.global` memory. A
kernel could write there and find the data at its next launch. In `.const` memory it cannot. The program stays the same
only if the addresses are used for loads alone. So they are followed through registers, and any other use is refused.
The same holds for arrays in `.const` memory: their generic address could be written to. The constant bank may be read
only at addresses that are computed from such arrays.

The offset of a load from its array is not bounded, because honest code computes offsets too. The load stays in the bank
of the module's own arrays (`c[0x3]` in machine code). Parameters and the driver's data (`c[0x0]`) and lists of jumps
(`c[0x2]`) are in other banks. The values that a card returns beyond the last array were not examined.
"""

from collections import defaultdict
from dataclasses import replace

from workers.assembler.ptx.scope import without_component
from workers.assembler.ptx.syntax import PtxBlock, PtxFunction, PtxInstruction, Statement
from workers.assembler.refusal import AssemblyRefused

_WIDE = ("b64", "u64", "s64")


def freeze(function: PtxFunction, names: frozenset[str]) -> PtxFunction:
    """Turn the loads from module-scope arrays into loads from the constant bank.

    Args:
        function: A function with a body.
        names: Module-scope `.global` and `.const` arrays.

    Raises:
        AssemblyRefused: If the address of an array is used other than for address arithmetic and loads. Also if
            another value is used as an address in the constant bank.
    """
    users = _users(function)
    pointers = _pointers(users, names)
    touched = {id(item): item for name in pointers for item in users[name]}
    frozen = {key: _freeze_instruction(item, pointers) for key, item in touched.items()}
    for item in function.instructions:
        if id(item) not in frozen and any(word.partition("::")[0] == "const" for word in item.modifiers):
            raise AssemblyRefused(
                f"'{item.opcode}' uses constant memory at an address outside of its tables", item.line
            )
    return replace(function, body=_rebuild(function.body, frozen)) if frozen and function.body else function


def _users(function: PtxFunction) -> dict[str, list[PtxInstruction]]:
    users: dict[str, list[PtxInstruction]] = defaultdict(list)
    for item in function.instructions:
        tokens = (token for operand in (*item.operands, item.guard) for token in operand)
        for token in {without_component(token) for token in tokens}:
            users[token].append(item)
    return users


def _pointers(users: dict[str, list[PtxInstruction]], names: frozenset[str]) -> frozenset[str]:
    """Return all names that may hold such an address: the arrays, and registers computed from them."""
    found = {name for name in names if name in users}
    queue = list(found)
    while queue:
        name = queue.pop()
        for item in users[name]:
            target = item.operands[0][0] if _derives(item, frozenset((name,))) else name
            if target not in found:
                found.add(target)
                queue.append(target)
    return frozenset(found)


def _derives(item: PtxInstruction, pointers: frozenset[str]) -> bool:
    """Return True if the instruction computes an address in its first operand from exactly one of `pointers`.

    A component of a vector register does not count, because it has several names.
    """
    if not item.modifiers or not item.operands or len(item.operands[0]) != 1 or "." in item.operands[0][0]:
        return False
    sources = {"mov": (1,), "add": (1, 2), "sub": (1,), "mad": (3,)}.get(item.head, ())
    if item.modifiers[-1] not in _WIDE and "wide" not in item.modifiers:
        return False
    held = [index for index in range(1, len(item.operands)) if pointers & set(item.operands[index])]
    return len(held) == 1 and held[0] in sources and _is_address(item.operands[held[0]])


def _is_address(operand: tuple[str, ...]) -> bool:
    """Return True if an operand is a name, or a name plus a number."""
    return len(operand) == 1 or (len(operand) == 3 and operand[1] == "+" and operand[2].isdigit())


def _freeze_instruction(item: PtxInstruction, pointers: frozenset[str]) -> PtxInstruction:
    if _derives(item, pointers) and item.operands[0][0] in pointers:
        return item
    used = [index for index, operand in enumerate(item.operands) if pointers & set(operand)]
    address = len(item.operands) - 1
    is_load = item.head == "ld" and not {"global", "const"}.isdisjoint(item.modifiers)
    if not is_load or used != [address] or item.operands[address][0] != "[":
        raise AssemblyRefused(
            f"'{item.opcode}' uses the address of module-scope memory; such memory may only be read, because "
            "data that a kernel writes there outlives its launch",
            item.line,
        )
    vector = [word for word in item.modifiers if word in ("v2", "v4")]
    return replace(item, opcode=".".join(["ld", "const", *vector, item.modifiers[-1]]))


def _rebuild(block: PtxBlock | None, frozen: dict[int, PtxInstruction]) -> PtxBlock:
    statements: list[Statement] = []
    for statement in block.statements if block else ():
        if isinstance(statement, PtxBlock):
            statements.append(_rebuild(statement, frozen))
        elif isinstance(statement, PtxInstruction):
            statements.append(frozen.get(id(statement), statement))
        else:
            statements.append(statement)
    return PtxBlock(tuple(statements))
