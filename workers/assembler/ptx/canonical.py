"""A parsed module printed as text: one statement per line, without comments, debug lines and compilers' names.

Equal programs give equal text, hence equal machine code, whatever the names of the candidate's functions and files.
"""

from dataclasses import dataclass

from workers.assembler.machine import ENTRY
from workers.assembler.ptx.syntax import (
    PtxBlock,
    PtxFunction,
    PtxInstruction,
    PtxLabel,
    PtxModule,
    PtxPragma,
    PtxVariable,
    Statement,
)


@dataclass(frozen=True, slots=True)
class CanonicalText:
    """Canonical text, with the candidate's line for each of its lines."""

    text: str
    lines: tuple[int | None, ...]


def canonical_names(module: PtxModule) -> dict[str, str]:
    """Return new names for the functions and variables of a module, by old name."""
    names: dict[str, str] = {}
    for index, variable in enumerate(module.variables):
        names[variable.name] = f"{variable.space}_{index}"
    for function in module.functions:
        names.setdefault(function.name, ENTRY if function.entry else f"function_{len(names)}")
    return names


def print_module(module: PtxModule) -> CanonicalText:
    """Print a module under canonical names."""
    names = canonical_names(module)
    lines: list[tuple[str, int | None]] = [
        (f".version {module.version}", None),
        (f".target {module.target}", None),
        (f".address_size {module.address_bits}", None),
    ]
    lines += [(f"{_variable(item, names)};", item.line) for item in module.variables]
    for function in module.functions:
        lines += _function(function, names)
    return CanonicalText("\n".join(text for text, _ in lines) + "\n", tuple(line for _, line in lines))


def _variable(item: PtxVariable, names: dict[str, str]) -> str:
    words = [f".{item.linkage}"] if item.linkage else []
    words += [f".{item.space}", *(f".{word}" for word in item.attributes if not _after_type(item, word))]
    words += [f".{item.type}", *(f".{word}" for word in item.attributes if _after_type(item, word))]
    count = f"<{item.count}>" if item.count else ""
    extents = "".join(f"[{extent}]" for extent in item.extents)
    values = ""
    if item.values is not None:
        values = " = {" + ", ".join(item.values) + "}" if item.extents else f" = {item.values[0]}"
    return f"{' '.join(words)} {names.get(item.name, item.name)}{count}{extents}{values}"


def _after_type(item: PtxVariable, word: str) -> bool:
    """Return True for pointer attributes of a parameter, which follow its type; other alignments precede it."""
    return "ptr" in item.attributes and item.space == "param" and word[0] in "pga"


def _function(function: PtxFunction, names: dict[str, str]) -> list[tuple[str, int | None]]:
    taken = (*function.parameters, *function.results)
    names = names | {item.name: f"parameter_{index}" for index, item in enumerate(taken)}
    linkage = f".{function.linkage} " if function.linkage else ""
    results = f" ({', '.join(_variable(item, names) for item in function.results)})" if function.results else ""
    parameters = ", ".join(_variable(item, names) for item in function.parameters)
    head = f"{linkage}.{'entry' if function.entry else 'func'}{results} {names[function.name]} ({parameters})"
    for name, numbers in sorted(function.limits.items()):
        head += f" .{name} {', '.join(map(str, numbers))}".rstrip()
    if function.body is None:
        return [(f"{head};", function.line)]
    return [(head, function.line), *_block(function.body, names)]


def _block(block: PtxBlock, names: dict[str, str]) -> list[tuple[str, int | None]]:
    lines: list[tuple[str, int | None]] = [("{", None)]
    for statement in block.statements:
        if isinstance(statement, PtxBlock):
            lines += _block(statement, names)
        else:
            line = statement.line if isinstance(statement, PtxInstruction) else None
            lines.append((_statement(statement, names), line))
    return [*lines, ("}", None)]


def _statement(statement: Statement, names: dict[str, str]) -> str:
    if isinstance(statement, PtxInstruction):
        guard = f"@{''.join(statement.guard)} " if statement.guard else ""
        operands = ", ".join(" ".join(names.get(token, token) for token in item) for item in statement.operands)
        return f"{guard}{statement.opcode} {operands}".rstrip() + ";"
    if isinstance(statement, PtxLabel):
        targets = f" .branchtargets {', '.join(statement.targets)};" if statement.targets else ""
        return f"{statement.name}:{targets}"
    if isinstance(statement, PtxPragma):
        return f'.pragma "{statement.text}";'
    return f"{_variable(statement, {})};" if isinstance(statement, PtxVariable) else ""
