"""Descriptive names in place of Inductor's numbered ones."""

import ast
import keyword
from collections.abc import Iterable, Mapping

from workers.inductor_seeds.runtime import COMBINE, dotted
from workers.inductor_seeds.simplification import blocks, bound

KNOWN = {
    "xnumel": "x_extent",
    "ynumel": "y_extent",
    "znumel": "z_extent",
    "r0_numel": "extent",
    "R0_BLOCK": "RBLOCK",
    "xoffset": "x_start",
    "yoffset": "y_start",
    "zoffset": "z_start",
    "xindex": "x",
    "yindex": "y",
    "zindex": "z",
    "xmask": "x_mask",
    "ymask": "y_mask",
    "zmask": "z_mask",
    "r0_base": "lanes",
    "r0_offset": "start",
    "r0_index": "r",
    "r0_mask": "r_mask",
    "rows": "rows",
    "cols": "cols",
    "inner": "inner",
    "z": "z",
}
"""Names by Inductor's names for parts of an index: x, y and z for the axes of the grid, r for the reduced axis. The
last four come from `products`."""

TILED = {"YBLOCK": "BLOCK_M", "XBLOCK": "BLOCK_N", "R0_BLOCK": "BLOCK_K"}
"""Names of blocks in a kernel that `products` rewrote."""

_BY_CALL = {
    "tl.load": "value",
    "tl.sum": "total",
    "tl.reduce": "extreme",
    "tl.associative_scan": "running",
    "tl.dot": "product",
    "tl.full": "partial",
    "tl.zeros": "total",
    "tl.where": "chosen",
    "tl.program_id": "program",
    "tl.exp": "power",
    "tl.rsqrt": "scale",
    "libdevice.rsqrt": "scale",
}


class UniqueNames:
    """Source of unique names."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *COMBINE, "torch", "triton", "tl", "math", "libdevice"}

    def give(self, wish: str) -> str:
        """Return the wish if it is free, otherwise with the first free number."""
        wish = f"{wish}_" if keyword.iskeyword(wish) else wish
        name, number = wish, 2
        while name in self._taken:
            name, number = f"{wish}_{number}", number + 1
        self._taken.add(name)
        return name


def rename(function: ast.AST, names: Mapping[str, str]) -> None:
    """Rename variables, parameters and the function itself, in place."""
    for node in ast.walk(function):
        if isinstance(node, ast.Name):
            node.id = names.get(node.id, node.id)
        elif isinstance(node, ast.arg):
            node.arg = names.get(node.arg, node.arg)
        elif isinstance(node, ast.FunctionDef):
            node.name = names.get(node.name, node.name)


def name_locals(function: ast.FunctionDef, parameters: Mapping[str, str]) -> dict[str, str]:
    """Name all variables of a kernel; the names of its parameters are given."""
    names, found = UniqueNames(parameters.values()), dict(parameters)
    for body in blocks(function):
        for line in body:
            value = line.value if isinstance(line, ast.Assign) else None
            wishes = {name: KNOWN.get(name) or _meaning(value, found) for name in _bound(line)}
            for name, wish in wishes.items():
                if name not in found:
                    found[name] = names.give(wish)
    return found


def _bound(line: ast.stmt) -> list[str]:
    """Return the names that a line binds, including a loop's variable."""
    match line:
        case ast.For(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            return [item.id for item in elements if isinstance(item, ast.Name)]
    return [bound(line)] if bound(line) else []


def _meaning(value: ast.expr | None, known: Mapping[str, str]) -> str:
    """Name a value after its operation, a load after its pointer."""
    while isinstance(value, ast.Subscript):
        value = value.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
        value = value.func.value
    if isinstance(value, ast.Call) and dotted(value.func) == "tl.load":
        pointer: ast.expr = value.args[0]
        while isinstance(pointer, ast.BinOp):
            pointer = pointer.left
        name = known.get(dotted(pointer), dotted(pointer)).removesuffix("_ptr")
        return f"{name}_value" if name in ("x", "y", "z", "r") else name or "value"
    if isinstance(value, ast.Call):
        return _BY_CALL.get(dotted(value.func), "value")
    return "inside" if isinstance(value, ast.Compare) else "value"
