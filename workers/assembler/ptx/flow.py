"""Control flow of a kernel: restricted to its own labels and functions, and to correct returns.

Machine code jumps to any address in a register or on the stack. The judge's own kernels, which read clocks, are in the
same context. So a kernel must not be able to write such an address. Indices of jumps are bounded by their lists.
Functions must not call themselves, because ptxas keeps return addresses of recursive functions in local memory.
"""

from collections import defaultdict
from dataclasses import replace

from workers.assembler.ptx.syntax import PtxBlock, PtxFunction, PtxInstruction, PtxLabel, PtxModule, Statement
from workers.assembler.refusal import AssemblyRefused


def check_calls(module: PtxModule) -> None:
    """Check that no function of a module calls itself, directly or through others.

    Raises:
        AssemblyRefused: If one does.
    """
    functions = {item.name for item in module.functions}
    left: dict[str, set[str]] = defaultdict(set)
    for function in module.functions:
        called = (item.operands for item in function.instructions if item.head == "call")
        left[function.name] |= functions & {token for operands in called for part in operands for token in part}
    while ending := [name for name, called in left.items() if called.isdisjoint(left)]:
        for name in ending:
            del left[name]
    if left:
        raise AssemblyRefused(
            "a function of the kernel calls itself, directly or through others: its return addresses would lie in "
            "memory that the kernel can write; use a loop"
        )


def bound_jumps(function: PtxFunction) -> PtxFunction:
    """Clamp the index of every jump through a list (`brx.idx`) to the last entry of that list.

    An index beyond the list would jump to an address from the memory after it.

    Raises:
        AssemblyRefused: If a jump names no list, or its index is no register.
    """
    if function.body is None or not any(item.head == "brx" for item in function.instructions):
        return function
    lists: dict[str, int] = {}
    for item in function.body.walk():
        if isinstance(item, PtxLabel):
            lists[item.name] = min(lists.get(item.name, len(item.targets)), len(item.targets))
    return replace(function, body=_bound(function.body, lists))


def _bound(block: PtxBlock, lists: dict[str, int]) -> PtxBlock:
    statements: list[Statement] = []
    for statement in block.statements:
        if isinstance(statement, PtxBlock):
            statements.append(_bound(statement, lists))
            continue
        if isinstance(statement, PtxInstruction) and statement.head == "brx":
            bound = _bound_of(statement, lists)
            statements += [bound] if statements[-1:] != [bound] else []
        statements.append(statement)
    return PtxBlock(tuple(statements))


def _bound_of(jump: PtxInstruction, lists: dict[str, int]) -> PtxInstruction:
    """Return the instruction that clamps the index of a jump to its list, under the same guard."""
    index, targets = jump.operands if len(jump.operands) == 2 else ((), ())
    length = lists.get(targets[0], 0) if len(targets) == 1 else 0
    if len(index) != 1 or not length:
        raise AssemblyRefused(f"'{jump.opcode}' must name a register and a list of targets of its own", jump.line)
    return PtxInstruction("min.u32", (index, index, (str(length - 1),)), jump.guard, jump.line)
