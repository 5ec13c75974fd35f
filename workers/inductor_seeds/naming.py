"""Names that say what a thing is, in place of Inductor's numbers."""

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
"""What Inductor calls parts of an index: x, y and z for the axes of the grid, r for the axis that is folded. The last
four are what `products` makes of them."""

TILED = {"YBLOCK": "BLOCK_M", "XBLOCK": "BLOCK_N", "R0_BLOCK": "BLOCK_K"}
"""What blocks are called in a kernel that `products` wrote anew."""

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
    """Gives names, each once."""

    def __init__(self, taken: Iterable[str] = ()) -> None:
        self._taken = {*taken, *COMBINE, "torch", "triton", "tl", "math", "libdevice"}

    def give(self, wish: str) -> str:
        """The wish if it is free, else with the first free number."""
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
    """Names for all that a kernel binds, its parameters' given."""
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
    """The names that a line binds, a loop's variable included."""
    match line:
        case ast.For(target=ast.Name(id=name)):
            return [name]
        case ast.Assign(targets=[ast.Tuple(elts=elements)]):
            return [item.id for item in elements if isinstance(item, ast.Name)]
    return [bound(line)] if bound(line) else []


def _meaning(value: ast.expr | None, known: Mapping[str, str]) -> str:
    """What a value is called by how it is made; a load by what it loads from."""
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
