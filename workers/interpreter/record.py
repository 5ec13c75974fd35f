"""The record: type or constant of every expression of a kernel in Triton's compiler, written during recompilation.

The compiler decides much of a kernel: branches of `if`, iterations of `tl.static_range`, names that a loop carries. If
the interpreter decided otherwise, it would judge another kernel.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from triton.compiler import code_generator
from triton.language import core
from triton.runtime.jit import JITCallable

from workers.interpreter.expression_ids import LOOP, READ, SITE, number

Description: TypeAlias = str | tuple["Description", ...]
"""Description of a value: the name of a tensor's type, or a constant."""
Page = dict[object, object]
"""Descriptions by expression; and, by loop, the names that have their earlier value again in every iteration."""
Sheet = dict[tuple[object, ...], Page]
"""Pages of one specialisation of a function, by the iterations of unrolled loops."""
Record = dict[tuple[str, Description], Sheet | None]
"""Sheets by a function's name and the descriptions of its arguments. None if these are ambiguous."""

_PLAIN = (bool, int, float, str, type(None))


def describe(value: object) -> Description:
    """Describe a value, in the same way for the compiler and for the interpreter."""
    if isinstance(value, core.tensor):
        return _without_const(value.type.name)
    if isinstance(value, core.constexpr):
        is_tensor = isinstance(value.value, core.base_value) and not isinstance(value.value, core.tuple)
        return ("a constant", describe(value.value)) if is_tensor else describe(value.value)
    if isinstance(value, core.tuple | tuple):
        return ("a tuple", *map(describe, value))
    if isinstance(value, _PLAIN):
        return (type(value).__name__, repr(value))
    if isinstance(value, JITCallable):
        return ("a function", value.fn.__name__)
    if isinstance(value, core.base_value):
        return str(value.type)
    if callable(value) and hasattr(value, "__name__"):
        return ("a function", value.__name__)
    return (type(value).__name__, "" if isinstance(value, Iterator) else _without_const(str(value)))


def _without_const(name: str) -> str:
    """Drop a parameter's `tl.const`, which forbids stores to it and is not in the plan."""
    return name.replace("const_pointer<", "pointer<")


def format_description(what: object) -> str:
    """Format a description for a reason."""
    if isinstance(what, tuple) and what[:1] == ("a tuple",):
        return f"({', '.join(map(format_description, what[1:]))})"
    return " ".join(map(format_description, what)) if isinstance(what, tuple) else str(what)


class RecordingGenerator(code_generator.CodeGenerator):  # type: ignore[misc]
    """Triton's code generator, which also records the candidate's functions.

    Attributes:
        module_name: Module of the recorded functions.
        record: Record of the kernel that is being compiled.
    """

    module_name = ""
    record: Record = {}

    def __init__(self, *given: object, **named: object) -> None:
        super().__init__(*given, **named)
        if self.is_kernel:
            RecordingGenerator.record = {}
        self._sheet: Sheet = {}
        self._turns: tuple[object, ...] = ()
        self._bodies: dict[int, ast.For] = {}
        self._parts: dict[int, Iterator[int]] = {}
        self._function: ast.FunctionDef | None = None
        self._key: tuple[str, Description] = ("", ())

    def visit(self, node: ast.AST | None) -> object:
        """Record an expression. Values of an earlier trial are overwritten."""
        if isinstance(node, ast.FunctionDef) and self.jit_fn.fn.__module__ == self.module_name:
            self._visit_function(node)
            return None
        if isinstance(node, ast.AugAssign) and hasattr(node, READ) and isinstance(node.target, ast.Name):
            # After `+=` only the type of the earlier number is known.
            self._page()[getattr(node, READ)] = describe(self.dereference_name(node.target.id))
        outer = self._turns
        if isinstance(node, ast.ListComp):
            self._parts[id(node.elt)] = count()
        elif node is not None and id(node) in self._parts:
            self._turns = (*outer, next(self._parts[id(node)]))
        found: object = super().visit(node)
        site = getattr(node, SITE, None)
        if site is not None:
            self._page()[site] = describe(found)
        self._turns = outer
        return found

    def _visit_function(self, node: ast.FunctionDef) -> None:
        """Number a function's expressions, and record it."""
        number(node, self.jit_fn.fn.__globals__)
        self._bodies = {id(loop.body): loop for loop in ast.walk(node) if isinstance(loop, ast.For)}
        self._function = node
        super().visit(node)
        known = self.record.setdefault(self._key, self._sheet)
        if known != self._sheet:
            self.record[self._key] = None

    def visit_compound_statement(self, stmts: Sequence[ast.stmt]) -> None:
        """Note the arguments, and the iteration of an unrolled loop."""
        if self._function is not None and stmts is self._function.body:
            arguments = [self.lscope[argument.arg] for argument in self._function.args.args]
            self._key = (self._function.name, tuple(map(describe, arguments)))
        loop, outer = self._bodies.get(id(stmts)), self._turns
        turn = self.lscope.get(loop.target.id) if loop is not None and isinstance(loop.target, ast.Name) else None
        if isinstance(turn, core.constexpr):
            self._turns = (*outer, turn.value)
        super().visit_compound_statement(stmts)
        self._turns = outer

    def _find_carries(self, node: ast.stmt, liveins: Mapping[str, object], *more: object, **named: object) -> object:
        """Record the names that a loop does not carry between iterations."""
        carries = super()._find_carries(node, liveins, *more, **named)
        loop = getattr(node, LOOP, None)
        if loop is not None:
            self._page()[LOOP, loop] = frozenset(liveins).difference(carries[0])
        return carries

    def _page(self) -> Page:
        return self._sheet.setdefault(self._turns, {})


def record_module(module_name: str) -> None:
    """Make the compiler record the functions of a module from now on."""
    RecordingGenerator.module_name = module_name
    code_generator.CodeGenerator = RecordingGenerator
