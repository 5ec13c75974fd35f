"""Matrix products as plain two-dimensional tiles, as a person writes them.

Inductor's kernels with a product have three axes: y and x of the result and r, over which products are summed. A
fourth, z, counts matrices, one per program. First each value's axes are found (letters from "yxr"). A value of one axis
becomes one-dimensional, one of two axes a tile, and each expression is rewritten for the axes of its context. If any
part is not understood with certainty, the whole kernel stays as Inductor wrote it.
"""

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass

from workers.inductor_seeds.indexing import (
    EXTENTS,
    INDEX,
    MASKS,
    NATURAL,
    NONE,
    STARTS,
    Axes,
    KnownValues,
    UnclearError,
    conjuncts,
    factors,
    index_line,
    is_call,
    is_cast,
    receiver,
    start_of,
    terms,
)
from workers.inductor_seeds.runtime import dotted

TILES = {"y": "rows", "x": "cols", "r": "inner"}
"""Names of the one-dimensional ranges along the axes."""

SHORTEST = 16
"""Minimum extent of a product's tile, required by `tl.dot`."""

_FLOAT = "tl.float32"


@dataclass(frozen=True)
class ParameterUse:
    """A launch's facts about a kernel's parameters.

    Attributes:
        passed: Host code by parameter.
        dtypes: Known element dtypes of pointers, such as `tl.float16`.
        small: Pointers to fewer than 2^31 elements at all of the operator's sizes.
        short: True if the tiles along y fit one axis of a grid.
    """

    passed: Mapping[str, str]
    dtypes: Mapping[str, str]
    small: Collection[str]
    short: bool


def flatten(function: ast.FunctionDef, use: ParameterUse) -> bool:
    """Rewrite a kernel with a matrix product to plain tiles, in place. Returns True if it did."""
    if not any(isinstance(node, ast.Call) and dotted(node.func) == "tl.dot" for node in ast.walk(function)):
        return False
    try:
        body = _Flattening(function, use).block(deepcopy(function.body))
    except UnclearError:
        return False
    function.body = body
    return True


def put_matrices_last(function: ast.FunctionDef) -> None:
    """Exchange the first and the last axis of the grid, in place: columns vary first, matrices last."""
    for node in ast.walk(function):
        match node:
            case ast.Call(args=[ast.Constant(value=0 | 2 as axis)]) if dotted(node.func) == "tl.program_id":
                node.args = [ast.Constant(2 - axis)]


@dataclass(frozen=True)
class _Loaded:
    """A loaded value: its dtype, the cast that its readers expect, and the axes with zeros in masked elements."""

    dtype: str
    cast: str
    zeros: Axes


class _Writing(KnownValues):
    """Rewriter of one kernel's expressions for the axes of their context."""

    def __init__(self, function: ast.FunctionDef, use: ParameterUse) -> None:
        super().__init__(function)
        self._use = use
        self._starts: dict[str, ast.expr] = {}
        self._loaded: dict[str, _Loaded] = {}
        self._totals: set[str] = set()
        self._products: dict[str, ast.Call] = {}
        self._finals: dict[str, str] = {}
        self._loops = 0
        self._wide = False
        self._names = [node.id for node in ast.walk(function) if isinstance(node, ast.Name)]
        sizes = [name for name in self._parameters if name in use.passed and "ptr" not in name]
        codes = [use.passed[name] for name in sizes]
        self._same = {name: sizes[codes.index(code)] for name, code in zip(sizes, codes, strict=True)}
        self._numbers = {code: name for name, code in reversed(list(zip(sizes, codes, strict=True))) if code.isdigit()}

    def _written(self, value: ast.expr, wanted: str) -> ast.expr:
        match value:
            case ast.Name(id=name) if name in MASKS:
                return self._below(MASKS[name], wanted)
            case ast.Name(id=name):
                return self._name(name, wanted)
            case ast.UnaryOp(op=op, operand=inner):
                return ast.UnaryOp(op, self._written(inner, wanted))
            case ast.BinOp(left=left, op=op, right=right):
                return ast.BinOp(self._written(left, wanted), op, self._written(right, wanted))
            case ast.Compare(left=left, ops=ops, comparators=others):
                written = [self._written(item, wanted) for item in others]
                return ast.Compare(self._written(left, wanted), ops, written)
            case ast.Subscript(value=inner):
                return self._written(inner, wanted)
            case ast.Call():
                return self._call(value, dotted(value.func), wanted)
        return value

    def _name(self, name: str, wanted: str) -> ast.expr:
        if name in self._products:
            return self._products[name]
        index = INDEX.get(name)
        axes = "".join(self._axes_of_name(name))
        same = self._finals.get(name, name) if index is None else TILES.get(index, "z")
        node: ast.expr = ast.Name(self._same.get(name, same), ast.Load())
        if name in self._loaded and (cast := self._loaded[name].cast):
            node = _cast(_spread(node, axes, wanted), cast)
            return node
        node = _spread(node, axes, wanted)
        return _cast(node, "tl.int64") if index and self._wide else node

    def _call(self, call: ast.Call, function: str, wanted: str) -> ast.expr:
        if is_cast(call):
            return self._cast(call, wanted)
        if function == "tl.load":
            axes = self._order(self.axes(call))
            return _spread(self._load("", call, ""), axes, wanted)
        if function == "tl.dot":
            return self._dot(call)
        if function in ("tl.reshape", "tl.broadcast_to", "tl.trans"):
            return self._written(call.args[0], wanted)
        if function == "tl.full" and not self.axes(call):
            return ast.Call(call.func, [ast.List([], ast.Load()), *call.args[1:]], call.keywords)
        if function == "tl.full":
            return self._full(call)
        if function == "tl.where" and (kept := self._needless(call)):
            return self._written(kept, wanted)
        return ast.Call(call.func, [self._written(item, wanted) for item in call.args], call.keywords)

    def _full(self, call: ast.Call) -> ast.expr:
        sizes, number, dtype = map(ast.unparse, call.args)
        code = f"tl.zeros(({sizes[1:-1]}), dtype={dtype})" if number == "0" else ast.unparse(call)
        return ast.parse(code, mode="eval").body

    def _dot(self, call: ast.Call) -> ast.Call:
        operands = []
        for item, axes in zip(call.args, (Axes("yr"), Axes("xr")), strict=True):
            written = self._written(item, self._orders[axes])
            turned = ast.Call(ast.parse("tl.trans", mode="eval").body, [written], [])
            operands.append(written if self._orders[axes] == NATURAL[axes] else turned)
        return ast.Call(call.func, operands, call.keywords)

    def _cast(self, call: ast.Call, wanted: str) -> ast.expr:
        """Write a cast, unless it repeats the dtype of a sum or of a loaded value."""
        value, dtype = receiver(call), ast.unparse(call.args[0])
        inner = value.value if isinstance(value, ast.Subscript) else value
        if isinstance(inner, ast.Name):
            if inner.id in self._totals and dtype == _FLOAT:
                return self._written(value, wanted)
            loaded = self._loaded.get(inner.id)
            if loaded and dtype == loaded.dtype and loaded.cast in ("", dtype, _FLOAT):
                axes = "".join(self._axes[inner.id])
                return _spread(ast.Name(inner.id, ast.Load()), axes, wanted)
        return _cast(self._written(value, wanted), dtype)

    def _needless(self, call: ast.Call) -> ast.expr | None:
        """Return the value of a choice that is needless, because a load has zeros wherever it is not chosen."""
        condition, value, other = call.args
        inner = value
        while is_cast(inner):
            inner = receiver(inner)
        if isinstance(condition, ast.Name) and isinstance(inner, ast.Name) and ast.unparse(other) in ("0", "0.0"):
            loaded = self._loaded.get(inner.id)
            if loaded and MASKS.get(condition.id, "z") in loaded.zeros:
                return value
        return None

    # Memory.

    def _load(self, name: str, load: ast.Call, cast: str) -> ast.expr:
        axes, other = self.axes(load), next((item.value for item in load.keywords if item.arg == "other"), None)
        order = self._order(axes)
        masks = self._masks(load.args[1:2], order, self.axes(load.args[0]))
        zero = other is None or ast.unparse(other) == "0.0"
        if name:
            dtype = self._use.dtypes.get(_pointer(load), "")
            cast = "" if cast == dtype else cast
            self._loaded[name] = _Loaded(dtype, cast, axes if masks and zero else NONE)
        keywords = [ast.keyword("mask", masks)] if masks else []
        keywords += [ast.keyword("other", other or ast.Constant(0.0))] if masks else []
        return ast.Call(load.func, [self._address(load.args[0], order)], keywords)

    def _store(self, call: ast.Call, address: ast.expr, value: ast.expr, mask: Sequence[ast.expr]) -> ast.Call:
        axes = self.axes(address)
        if dotted(call.func) != "tl.store" or not self.axes(value) <= axes:
            raise UnclearError
        order = self._order(axes)
        masks = self._masks(mask, order, axes)
        keywords = [ast.keyword("mask", masks)] if masks else []
        return ast.Call(call.func, [self._address(address, order), self._written(value, order)], keywords)

    def _address(self, address: ast.expr, order: str) -> ast.expr:
        """Write an address: a pointer, then terms shared by the tile, then the terms along its axes in their order."""
        pointer, *parts = terms(address)
        if not isinstance(pointer, ast.Name) or "ptr" not in pointer.id:
            raise UnclearError

        def place(part: ast.expr) -> int:
            axes = "".join(self.axes(part))
            return order.index(axes) + 1 if len(axes) == 1 else 3 * len(axes)

        written: ast.expr = pointer
        for part in sorted(parts, key=place):
            written = ast.BinOp(written, ast.Add(), self._part(part, order, wide=pointer.id not in self._use.small))
        return written

    def _part(self, part: ast.expr, order: str, *, wide: bool) -> ast.expr:
        """Write one term of an address: the index first, then its factors, which may be parameters."""
        found = factors(part)
        found.sort(key=lambda item: ast.unparse(item) not in INDEX)
        product: ast.expr | None = None
        for item in found:
            self._wide = wide and (len(found) > 1 or not isinstance(item, ast.Name))
            number = self._numbers.get(ast.unparse(item)) if len(found) > 1 else None
            written = ast.Name(number, ast.Load()) if number else self._written(item, order)
            self._wide = False
            product = written if product is None else ast.BinOp(product, ast.Mult(), written)
        assert product is not None
        return product

    def _masks(self, mask: Sequence[ast.expr], order: str, addressed: Axes) -> ast.expr | None:
        """Join the bounds along all axes of a tile, rows first, then the other conditions.

        A bound that Inductor left out holds for all lanes.
        """
        asked = [item for part in mask for item in conjuncts(part)]
        named = [MASKS[item.id] for item in asked if isinstance(item, ast.Name) and item.id in MASKS]
        others = [item for item in asked if not (isinstance(item, ast.Name) and item.id in MASKS)]
        bounds = [self._below(axis, order) for axis in order if axis in addressed or axis in named]
        joined: ast.expr | None = None
        for item in [*bounds, *(self._written(item, order) for item in others)]:
            joined = item if joined is None else ast.BinOp(joined, ast.BitAnd(), item)
        return joined

    def _below(self, axis: str, wanted: str) -> ast.expr:
        if axis not in TILES:
            raise UnclearError
        index = _spread(ast.Name(TILES[axis], ast.Load()), axis, wanted)
        extent = EXTENTS[axis]
        return ast.Compare(index, [ast.Lt()], [ast.Name(self._same.get(extent, extent), ast.Load())])


class _Flattening(_Writing):
    """Rewriter of one kernel's lines in their order."""

    def block(self, body: Sequence[ast.stmt]) -> list[ast.stmt]:
        """Rewrite lines.

        Raises:
            UnclearError: If one of them is not understood.
        """
        return [new for at, line in enumerate(body) for new in self._line(line, body[at + 1 :])]

    def _line(self, line: ast.stmt, after: Sequence[ast.stmt]) -> list[ast.stmt]:
        match line:
            case ast.AnnAssign(annotation=annotation, value=ast.Constant()) if dotted(annotation) == "tl.constexpr":
                return [line]
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                return self._assign(name, value, after)
            case ast.For(target=ast.Name(), iter=ast.Call(args=bounds) as head, body=body, orelse=[]):
                head.args = [self._written(bound, "") for bound in bounds]
                self._loops += 1
                line.body = self.block(body)
                self._loops -= 1
                return [line]
            case ast.Expr(value=ast.Call(args=[address, value, *mask], keywords=[]) as call):
                return [ast.Expr(self._store(call, address, value, mask))]
        raise UnclearError

    def _assign(self, name: str, value: ast.expr, after: Sequence[ast.stmt]) -> list[ast.stmt]:
        if name in STARTS:
            self._starts[name] = start_of(STARTS[name], value, short=self._use.short)
            return []
        if name in MASKS:
            return self._check_mask(name, value)
        if name in EXTENTS.values():
            if ast.unparse(value) != self._use.passed.get(name):
                raise UnclearError
            return []
        if name in INDEX:
            found = index_line(INDEX[name], value, self._starts, short=self._use.short)
            self._axes[name] = Axes(INDEX[name]) - {"z"}
            return [_bind(TILES.get(INDEX[name], "z"), found)]
        if name == "r0_base":
            self._starts[name] = value
            return []
        return self._value(name, value, after)

    def _check_mask(self, name: str, value: ast.expr) -> list[ast.stmt]:
        """Drop a mask that is a plain bound; it is written again at its uses."""
        extent, code = EXTENTS[MASKS[name]], ast.unparse(value)
        index = next(item for item in INDEX if INDEX[item] == MASKS[name])
        bounds = [f"{index} < {extent}", f"{index} < {self._use.passed.get(extent)}"]
        if code not in bounds and not re.match(r"tl\.full\(\[\w+\], True, tl\.int1\)", code):
            raise UnclearError
        return []

    def _value(self, name: str, value: ast.expr, after: Sequence[ast.stmt]) -> list[ast.stmt]:
        axes = self.axes(value)
        if self._axes.setdefault(name, axes) != axes:
            raise UnclearError
        if is_call(value, "tl.load"):
            return [_bind(name, self._load(name, value, ""))]
        if is_cast(value) and is_call(loading := receiver(value), "tl.load"):
            return [_bind(name, self._load(name, loading, ast.unparse(value.args[0])))]
        written = self._written(value, self._order(axes))
        self._loaded.pop(name, None)
        if is_call(written, "tl.zeros") and ast.unparse(written).endswith(f"dtype={_FLOAT})"):
            self._totals.add(name)
        if is_call(written, "tl.dot") and self._moves(name, written, after):
            self._products[name] = written
            return []
        match written:
            case ast.BinOp(left=ast.Name(id=total), op=ast.Add(), right=product) if (
                total == name and name in self._totals and is_call(product, "tl.dot") and len(product.args) == 2
            ):
                product.args.append(ast.Name(name, ast.Load()))
                return [_bind(name, product)]
        if isinstance(written, ast.Name) and self._is_final(name, written.id, after):
            self._finals[name] = written.id
            return []
        if name in self._totals and not is_call(written, "tl.zeros"):
            self._totals.remove(name)
        return [_bind(name, written)]

    def _is_final(self, name: str, total: str, after: Sequence[ast.stmt]) -> bool:
        """True if a name is an alias of a complete sum."""
        stored = [
            node.id for line in after for node in ast.walk(line) if isinstance(node, ast.Name) and _is_bound(node)
        ]
        return total in self._totals and not self._loops and name not in stored and total not in stored

    def _moves(self, name: str, product: ast.Call, after: Sequence[ast.stmt]) -> bool:
        """True if a product may move to its reader: it is read once, later in these lines, with unchanged operands."""
        if self._names.count(name) != 2:
            return False
        operands = {node.id for node in ast.walk(product) if isinstance(node, ast.Name)}
        for line in after:
            names = [node for node in ast.walk(line) if isinstance(node, ast.Name)]
            if any(node.id == name for node in names):
                return isinstance(line, ast.Assign)
            if any(node.id in operands and _is_bound(node) for node in names):
                return False
        return False


def _spread(node: ast.expr, axes: str, wanted: str) -> ast.expr:
    """Broadcast a value of some axes to the wanted axes."""
    if len(axes) != 1 or len(wanted) < 2:
        if len(axes) > 1 and set(axes) != set(wanted):
            raise UnclearError
        return node
    if axes not in wanted:
        raise UnclearError
    code = "(:, None)" if wanted[0] == axes else "(None, :)"
    return ast.parse(f"{ast.unparse(node)}[{code[1:-1]}]", mode="eval").body


def _pointer(load: ast.Call) -> str:
    return ast.unparse(terms(load.args[0])[0])


def _is_bound(node: ast.Name) -> bool:
    return isinstance(node.ctx, ast.Store)


def _cast(value: ast.expr, dtype: str) -> ast.expr:
    return ast.Call(ast.Attribute(value, "to", ast.Load()), [ast.parse(dtype, mode="eval").body], [])


def _bind(name: str, value: ast.expr) -> ast.Assign:
    return ast.Assign([ast.Name(name, ast.Store())], value, lineno=0)
