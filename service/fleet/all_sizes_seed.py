"""Another seed kernel, for drafts with kernels for the operator's first shape: those for all sizes alone."""

import ast

from service.operators.sources import parse, render, walk


def without_choice(draft: str, entry: str) -> str | None:
    """Drop the kernels for one shape from a draft; returns None if it has none.

    Args:
        draft: A draft of TorchInductor. Its entry first tests sizes, and returns another function's result.
        entry: Name of its entry.
    """
    module = parse(draft)
    functions = {item.name: item for item in module.body if isinstance(item, ast.FunctionDef)}
    match functions[entry].body:
        case [ast.If(body=[ast.Return(value=ast.Call(func=ast.Name(id=fixed)))], orelse=[]), *lines] if (
            fixed in functions
        ):
            functions[entry].body = lines
        case _:
            return None
    needed = {entry}
    while more := {name for each in needed for name in _mentions(functions[each]) & functions.keys()} - needed:
        needed |= more
    module.body = [item for item in module.body if not isinstance(item, ast.FunctionDef) or item.name in needed]
    return render(module)


def _mentions(function: ast.FunctionDef) -> set[str]:
    return {node.id for node in walk(function) if isinstance(node, ast.Name)}
