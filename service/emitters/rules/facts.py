"""Inference of facts about a kernel's values without running it: the shape of each name, and if it is float32.

The shape of a tile is a tuple of extents as the code writes them (`("ROWS", "BLOCK")`), `"1"` for a broadcast axis and
`()` for a scalar. An uncertain fact is None, and a rule that needs it does not apply.
"""

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from service.emitters.rules.patterns import (
    calls,
    expression,
    flat,
    heads,
    is_call,
    operand,
    reads,
    receiver,
    text,
    writes,
)
from service.operators.sources import dotted

ELEMENTWISE = (
    *("tl.exp", "tl.exp2", "tl.log", "tl.log2", "tl.sqrt", "tl.rsqrt", "tl.sqrt_rn", "tl.sigmoid", "tl.abs", "tl.erf"),
    *("tl.sin", "tl.cos", "tl.floor", "tl.ceil", "tl.cdiv", "tl.maximum", "tl.minimum", "tl.where", "tl.fma"),
    *("libdevice.tanh", "libdevice.erf", "libdevice.exp", "libdevice.rsqrt", "tl.extra.libdevice.tanh"),
)
"""Functions that work element by element; every argument broadcasts."""

REDUCTIONS = {"tl.sum": 0.0, "tl.max": -float("inf"), "tl.min": float("inf")}
"""Functions that fold one axis of a tile, with the result of an empty fold."""

HINTS = ("tl.multiple_of", "tl.max_contiguous", "tl.max_constancy")
"""Functions that return their first argument and give the compiler a hint about it."""

TILES = ("tl.arange", "tl.zeros", "tl.full")
"""Functions that make a tile of a given extent."""

MASK_POSITIONS = {"tl.load": 1, "tl.store": 2}
"""Position of the mask among the arguments of a memory access."""

MAX_PASSES = 8
"""Maximum number of passes over the lines until nothing new is inferred; kernels take two or three."""

SCALARS = ("tl.program_id", "tl.num_programs", "float", "int")


@dataclass(frozen=True)
class InferredValue:
    """Known facts about a value. `dtype` is `number` for a Python number, which takes the dtype of its partner."""

    shape: tuple[str, ...] = ()
    dtype: Literal["number", "float32", "other"] = "other"


Known = Mapping[str, InferredValue | None]


def facts(parameters: Iterable[str], lines: Iterable[ast.stmt]) -> dict[str, InferredValue | None]:
    """Infer the facts of each name in a kernel's lines. A name with different assignments is unknown (None)."""
    known: dict[str, InferredValue | None] = {name: InferredValue() for name in parameters}
    pairs = [pair for line in lines for pair in _bindings(line)]
    assigned = {name for name, _ in pairs}
    for _ in range(MAX_PASSES):
        before = dict(known)
        for name, value in pairs:
            if value is None or known.keys() >= reads(value) & assigned:
                found = None if value is None else infer(value, known)
                known[name] = _join(known[name], found) if name in known else found
        if known == before:
            break
    else:
        return dict.fromkeys(known.keys() | assigned)
    return dict.fromkeys(assigned) | known


def facts_of(function: ast.FunctionDef) -> dict[str, InferredValue | None]:
    """Infer the facts of each name of a kernel."""
    return facts((item.arg for item in function.args.args), flat(function.body))


def operands_known(line: ast.stmt, known: Known) -> bool:
    """Return True if all arguments of a line's memory accesses are known, constants aside."""
    accesses = calls(line, "tl.load", "tl.store")
    operands = [item for call in accesses for item in (*call.args, *(pair.value for pair in call.keywords))]
    return all(isinstance(item, ast.Constant) or infer(item, known) for item in operands)


def infer(node: ast.expr, known: Known) -> InferredValue | None:
    """Infer the facts of an expression."""
    match node:
        case ast.Constant(value=int() | float()):
            return InferredValue(dtype="number")
        case ast.Name(id=name):
            return known.get(name, InferredValue())
        case ast.Attribute():
            return InferredValue() if node.attr in ("dtype", "element_ty") or dotted(node).startswith("tl.") else None
        case ast.UnaryOp(operand=inner):
            return infer(inner, known)
        case ast.BinOp(left=left, right=right):
            return _combine([infer(left, known), infer(right, known)])
        case ast.Compare(left=left, comparators=others):
            found = _combine([infer(item, known) for item in (left, *others)])
            return found and InferredValue(found.shape)
        case ast.Subscript():
            return _expanded(node, infer(node.value, known))
        case ast.Call():
            return _called(node, known)
    return None


def broadcast(left: tuple[str, ...], right: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return the common shape of two tiles; None if it is uncertain."""
    rank = max(len(left), len(right))
    pairs = zip(("1",) * (rank - len(left)) + left, ("1",) * (rank - len(right)) + right, strict=True)
    found = [a if b == "1" or a == b else b if a == "1" else None for a, b in pairs]
    return None if None in found else tuple(extent for extent in found if extent is not None)


def _bindings(statement: ast.stmt) -> list[tuple[str, ast.expr | None]]:
    """Return names that a statement assigns, each with its value if that is one expression."""
    match statement:
        case ast.Assign(targets=[ast.Name(id=name)], value=value):
            return [(name, value)]
        case ast.AnnAssign(target=ast.Name(id=name), value=value):
            return [(name, value)]
        case ast.AugAssign(target=ast.Name(id=name), op=op, value=value):
            return [(name, ast.BinOp(ast.Name(name, ast.Load()), op, value))]
        case ast.For(target=ast.Name(id=name)):
            return [(name, expression("tl.program_id(0)"))]
        case ast.Assign() | ast.For():
            return [(name, None) for name in writes(*heads(statement))]
    return []


def _join(first: InferredValue | None, second: InferredValue | None) -> InferredValue | None:
    if first is None or second is None or first.shape != second.shape:
        return None
    if "number" in (first.dtype, second.dtype):
        return first if second.dtype == "number" else second
    return first if first == second else None


def _combine(values: list[InferredValue | None]) -> InferredValue | None:
    """Infer the result of an element-wise operation."""
    shape: tuple[str, ...] | None = ()
    for value in values:
        shape = None if value is None or shape is None else broadcast(shape, value.shape)
    if shape is None:
        return None
    dtypes = {value.dtype for value in values if value is not None}
    return InferredValue(shape, "float32" if "float32" in dtypes else "number" if dtypes == {"number"} else "other")


def _expanded(node: ast.Subscript, value: InferredValue | None) -> InferredValue | None:
    if value is None or len(value.shape) != 1:
        return None
    match text(node.slice):
        case "(:, None)" | ":, None":
            return replace(value, shape=(*value.shape, "1"))
        case "(None, :)" | "None, :":
            return replace(value, shape=("1", *value.shape))
    return None


def _called(call: ast.Call, known: Known) -> InferredValue | None:
    function = dotted(call.func)
    if function in SCALARS:
        return InferredValue(dtype="number" if function == "float" else "other")
    if function in TILES:
        return _made(call, function)
    if is_call(call, ".to"):
        return _cast(infer(receiver(call), known), operand(call, 0, "dtype"))
    if not call.args:
        return None
    if function in ELEMENTWISE:
        return None if call.keywords else _combine([infer(item, known) for item in call.args])
    first = infer(call.args[0], known)
    match function:
        case "tl.load":
            return first and InferredValue(first.shape)
        case "tl.cast":
            return _cast(first, operand(call, 1, "dtype"))
        case "tl.sum" | "tl.max" | "tl.min":
            return _reduced(call, first)
    return first if function in HINTS else None


def _cast(value: InferredValue | None, dtype: ast.expr | None) -> InferredValue | None:
    return value and InferredValue(value.shape, "float32" if dtype and text(dtype) == "tl.float32" else "other")


def _made(call: ast.Call, function: str) -> InferredValue | None:
    """Infer the result of `tl.arange(0, BLOCK)`, `tl.zeros(shape, dtype)` or `tl.full(shape, value, dtype)`."""
    if function == "tl.arange":
        return InferredValue((text(call.args[1]),)) if len(call.args) == 2 and text(call.args[0]) == "0" else None
    shape = operand(call, 0, "shape")
    if not isinstance(shape, ast.List | ast.Tuple):
        return None
    dtype = operand(call, 1 if function == "tl.zeros" else 2, "dtype")
    return _cast(InferredValue(tuple(text(extent) for extent in shape.elts)), dtype)


def _reduced(call: ast.Call, value: InferredValue | None) -> InferredValue | None:
    """Infer the result of folding one axis; without an axis, all are folded."""
    axis, keep = operand(call, 1, "axis"), operand(call, 99, "keep_dims")
    options = {item.arg for item in call.keywords}
    if value is None or len(call.args) > 2 or options - {"axis", "keep_dims"} or (keep and text(keep) != "True"):
        return None
    shape = list(value.shape)
    if axis is None:
        shape = [] if keep is None else ["1"] * len(shape)
    elif isinstance(axis, ast.Constant) and isinstance(axis.value, int) and 0 <= axis.value < len(shape):
        shape[axis.value : axis.value + 1] = [] if keep is None else ["1"]
    else:
        return None
    return replace(value, shape=tuple(shape))
