"""Rewording: a candidate written differently without changing what it computes, to see what moves that should not."""

import ast
import itertools
from collections.abc import Iterator, Mapping

from service.operators.sources import LAUNCH_OPTIONS, dotted, jit_functions, normalise, parse, render

Kernels = Mapping[str, ast.FunctionDef]

_NAMING = ("triton.Config", "triton.autotune", "triton.heuristics", "triton.jit")
"""Calls that are handed names of a kernel's parameters as texts; their own keywords are Triton's."""


def reword(source: str) -> str:
    """The same program with other names of kernels, parameters and locals, without comments, in another layout.

    What others than the module's kernels may know a name by stays: host functions and their parameters, launch options,
    and names of parameters that are also a keyword or a text of any other call.

    Raises:
        SyntaxError: If the source cannot be read.
    """
    module = parse(normalise(source))
    try:
        kernels, fresh = jit_functions(module), _fresh(module)
        _rename_parameters(module, kernels, {name: next(fresh) for name in _parameters(module, kernels)})
        _rename_kernels(module, {name: next(fresh) for name in kernels if _stands_for_itself(module, name)})
    except RecursionError as error:
        raise SyntaxError("the source is nested too deep") from error
    return _laid_out(render(module))


def _fresh(module: ast.Module) -> Iterator[str]:
    """Names that nothing in a module goes by."""
    taken = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    taken |= {node.arg for node in ast.walk(module) if isinstance(node, ast.arg | ast.keyword) and node.arg}
    return (name for count in itertools.count() if (name := f"name_{count}") not in taken)


def _parameters(module: ast.Module, kernels: Kernels) -> list[str]:
    """Names of kernels' parameters that only the module's own launches know, each once."""
    names = dict.fromkeys(item.arg for kernel in kernels.values() for item in _arguments(kernel))
    kept = set(LAUNCH_OPTIONS)
    for call in (node for node in ast.walk(module) if isinstance(node, ast.Call)):
        if not _passes_parameters(call, kernels) and dotted(call.func) not in _NAMING:
            kept |= {item.arg for item in call.keywords if item.arg}
            given = (*call.args, *(item.value for item in call.keywords))
            kept |= {item.value for item in given if isinstance(item, ast.Constant) and isinstance(item.value, str)}
    return [name for name in names if name not in kept]


def _arguments(kernel: ast.FunctionDef) -> Iterator[ast.arg]:
    return (node for node in ast.walk(kernel.args) if isinstance(node, ast.arg))


def _passes_parameters(call: ast.Call, kernels: Kernels) -> bool:
    """Whether a call's keywords are parameters of kernels: a launch, a call in the device's code, or a `dict`."""
    return isinstance(call.func, ast.Subscript) or dotted(call.func) in ("dict", *kernels)


def _rename_parameters(module: ast.Module, kernels: Kernels, names: Mapping[str, str]) -> None:
    """Rename in the kernels, in what is passed to them, and in texts, such as the keys of a configuration."""
    for kernel in kernels.values():
        own = {item.arg: names[item.arg] for item in _arguments(kernel) if item.arg in names}
        for node in (inner for part in (kernel.args, *kernel.body) for inner in ast.walk(part)):
            if isinstance(node, ast.arg):
                node.arg = own.get(node.arg, node.arg)
            elif isinstance(node, ast.Name):
                node.id = own.get(node.id, node.id)
    pieces = {id(piece) for node in ast.walk(module) if isinstance(node, ast.JoinedStr) for piece in node.values}
    for node in ast.walk(module):
        if isinstance(node, ast.Call) and _passes_parameters(node, kernels):
            for item in node.keywords:
                item.arg = names.get(item.arg, item.arg) if item.arg else None
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in pieces:
            node.value = names.get(node.value, node.value)


def _stands_for_itself(module: ast.Module, name: str) -> bool:
    """Whether a kernel's name is bound once in the whole module."""
    bound = [node.arg for node in ast.walk(module) if isinstance(node, ast.arg)]
    bound += [node.id for node in ast.walk(module) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)]
    bound += [node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return bound.count(name) == 1


def _rename_kernels(module: ast.Module, names: Mapping[str, str]) -> None:
    for node in ast.walk(module):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.FunctionDef):
            node.name = names.get(node.name, node.name)


def _laid_out(text: str) -> str:
    """The text with twice the indentation, and a comment over every line, where that changes nothing else."""
    lines = [(line[: len(line) - len(line.lstrip())] * 2, line.lstrip()) for line in text.splitlines()]
    other = "".join(f"{indent}# Line {number}.\n{indent}{line}\n" for number, (indent, line) in enumerate(lines, 1))
    return other if ast.dump(parse(other)) == ast.dump(parse(text)) else text
