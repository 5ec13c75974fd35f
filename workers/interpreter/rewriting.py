"""Rewriting of kernels' syntax trees where Triton's compiler differs from Python.

Rewritten code calls names in double underscores, which `workers.interpreter.language` provides.
"""

import ast
from collections.abc import Iterable, Iterator
from copy import deepcopy

from workers.interpreter.expression_ids import LOOP, READ, SITE, bound_in

_HERE, _KEPT, _COUNTING = "__here__", "__kept__", "__counting__"
_NO_ARGUMENTS = ast.arguments([], [], None, [], [], None, [])
_COMPILERS = (
    ast.Name, ast.Constant, ast.UnaryOp, ast.BoolOp, ast.Compare,
    ast.expr_context, ast.unaryop, ast.boolop, ast.cmpop,
)  # fmt: skip
"""Nodes of conditions that can be evaluated at any time, without side effects."""


class DeviceCode(ast.NodeTransformer):
    """Transformer of constructs that differ between the device and Python.

    Assignments turn numbers into scalars, and conditions are decided for all lanes at once. `and`, `or` and `not` work
    elementwise, lists become tuples, and keyword arguments are evaluated before the others.
    """

    _loops = 0

    def visit(self, node: ast.AST) -> ast.AST:
        """Compare the value of a numbered expression with the compiler's."""
        made: ast.AST = super().visit(node)
        site = getattr(node, SITE, None)
        return made if site is None or not isinstance(made, ast.expr) else _held(site, made)

    def visit_Assign(self, node: ast.Assign) -> ast.Assign:
        """Turn numbers into scalars."""
        self.generic_visit(node)
        node.value = _call("__carry__", node.value)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        """Rewrite it as an assignment."""
        site = vars(node.target).pop(SITE, None)
        read = deepcopy(node.target)
        read.ctx = ast.Load()
        if hasattr(node, READ):
            setattr(read, SITE, getattr(node, READ))
        made = ast.copy_location(ast.Assign([node.target], ast.BinOp(read, node.op, node.value)), node)
        self.visit(made)
        if site is not None:
            made.value = _held(site, made.value)
        return made

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST:
        """Keep a value that is annotated as compile-time one."""
        assert node.value is not None
        self.generic_visit(node)
        value = _call("__annotated__", node.annotation, _later(node.value))
        return ast.copy_location(ast.Assign([node.target], value), node)

    def visit_If(self, node: ast.If) -> ast.If:
        """Check that a condition on the device binds no compile-time values."""
        names = [part for part in ast.walk(node) if isinstance(part, ast.Name)]
        bound = _bound([*node.body, *node.orelse], {name.id for name in names if isinstance(name.ctx, ast.Store)})
        self.generic_visit(node)
        more = [_call("__locals__"), _later(bound)] if bound.elts else []
        node.test = _call("__decide__", node.test, *more)
        return node

    def visit_While(self, node: ast.While) -> list[ast.stmt]:
        """Decide the condition in every iteration."""
        before = _keep(node)
        self.generic_visit(node)
        node.test = _call("__continue__", node.test)
        node.body += _kept(node)
        return [*before, node]

    def visit_For(self, node: ast.For) -> list[ast.stmt]:
        """Delete the variable after a loop on the device; evaluate the only bound of a range twice."""
        before = _keep(node)
        if isinstance(node.iter, ast.Call) and node.iter.keywords:
            call = node.iter  # Only here are keywords evaluated last.
            parts = [call.func, *call.args, *(item.value for item in call.keywords)]
            func, *values = [self._value(part) for part in parts]
            count = len(call.args)
            pairs = zip(call.keywords, values[count:], strict=True)
            node.iter = ast.Call(func, values[:count], [ast.keyword(item.arg, value) for item, value in pairs])
        else:
            node.iter = self._value(node.iter)
            _evaluate_twice(node.iter)
        node.body = [made for statement in node.body for made in _as_list(self.visit(statement))]
        node.body += _kept(node)
        self._loops += 1
        counting = f"{_COUNTING}{self._loops}"
        before.append(ast.copy_location(ast.Assign([ast.Name(counting, ast.Store())], node.iter), node))
        node.iter = ast.Name(counting, ast.Load())
        if hasattr(node, LOOP):
            node.iter = _call("__turns__", _here(), node.iter)
        return [*before, node, ast.copy_location(_lost(node.target, counting), node)]

    def _value(self, node: ast.expr) -> ast.expr:
        made = self.visit(node)
        assert isinstance(made, ast.expr)
        return made

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        """Turn both values into scalars if the device chooses."""
        self.generic_visit(node)
        return _call("__choose__", node.test, _later(node.body), _later(node.orelse))

    def visit_BoolOp(self, node: ast.BoolOp) -> ast.expr:
        """Combine operands elementwise."""
        self.generic_visit(node)
        name = "__both__" if isinstance(node.op, ast.And) else "__either__"
        return _call(name, *map(_later, node.values))

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.expr:
        """Apply `not` elementwise."""
        self.generic_visit(node)
        return _call("__not__", node.operand) if isinstance(node.op, ast.Not) else node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        """Let `is` compare unwrapped values."""
        self.generic_visit(node)
        if len(node.ops) != 1 or not isinstance(node.ops[0], ast.Is | ast.IsNot):
            return node
        same = _call("__same__", node.left, node.comparators[0])
        return ast.UnaryOp(ast.Not(), same) if isinstance(node.ops[0], ast.IsNot) else same

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        """Let unwrapped values be their own `value`."""
        self.generic_visit(node)
        return _call("__value__", node.value) if node.attr == "value" else node

    def visit_List(self, node: ast.List) -> ast.expr:
        """Turn a list into a tuple."""
        self.generic_visit(node)
        return ast.Tuple(node.elts, node.ctx)

    def visit_ListComp(self, node: ast.ListComp) -> ast.expr:
        """Turn a list comprehension into a tuple made from another tuple."""
        self.generic_visit(node)
        (loop,) = node.generators
        assert isinstance(loop.target, ast.Name)
        counter = ast.arguments([], [ast.arg(loop.target.id)], None, [], [], None, [])
        here = _here() if hasattr(node, LOOP) else ast.Constant(None)
        return _call("__parts__", here, loop.iter, ast.Lambda(counter, node.elt))

    def visit_Call(self, node: ast.Call) -> ast.expr:
        """Evaluate keyword arguments first."""
        parts = [*node.args, *(item.value for item in node.keywords)]
        matters = node.keywords and any(isinstance(each, ast.Call) for part in parts for each in ast.walk(part))
        self.generic_visit(node)
        if not matters or any(item.arg is None for item in node.keywords):
            return node
        named = ast.Dict([ast.Constant(item.arg) for item in node.keywords], [item.value for item in node.keywords])
        return ast.copy_location(_call("__apply__", node.func, named, ast.Tuple(node.args, ast.Load())), node)

    def visit_Assert(self, node: ast.Assert) -> ast.Expr:
        """Evaluate the assertion's operands, without a check."""
        self.generic_visit(node)
        return ast.Expr(_call("__ignore__", node.test, *([node.msg] if node.msg else [])))


def _lost(target: ast.expr, counting: str) -> ast.If:
    """Build the statement after a loop: it deletes the loop variable, unless the compiler unrolled the loop."""
    names = [item.id for item in ast.walk(target) if isinstance(item, ast.Name)]
    nothing = [ast.Assign([ast.Name(name, ast.Store())], ast.Constant(None)) for name in names]
    gone = ast.Delete([ast.Name(name, ast.Del()) for name in names])
    return ast.If(_call("__lost__", ast.Name(counting, ast.Load())), [*nothing, gone], [])


def insert_trace(function: ast.FunctionDef) -> None:
    """Insert a lookup of the function's sheet in the record at its start."""
    arguments = ast.Tuple([ast.Name(argument.arg, ast.Load()) for argument in function.args.args], ast.Load())
    entered = _call("__enter__", ast.Constant(function.name), arguments)
    function.body.insert(0, ast.copy_location(ast.Assign([ast.Name(_HERE, ast.Store())], entered), function.body[0]))


def _here() -> ast.Name:
    return ast.Name(_HERE, ast.Load())


def _held(site: int, value: ast.expr) -> ast.expr:
    return ast.copy_location(_call("__as__", _here(), ast.Constant(site), value), value)


def _keep(loop: ast.For | ast.While) -> list[ast.stmt]:
    """Build the statement before a numbered loop: it saves names that the loop does not carry."""
    names = bound_in(loop)
    if not names or not hasattr(loop, LOOP):
        return []
    number = getattr(loop, LOOP)
    said = ast.Tuple([ast.Constant(name) for name in names], ast.Load())
    kept = _call("__keep__", _here(), ast.Constant(number), said, _call("__locals__"))
    return [ast.copy_location(ast.Assign([ast.Name(f"{_KEPT}{number}", ast.Store())], kept), loop)]


def _kept(loop: ast.For | ast.While) -> list[ast.stmt]:
    """Build the statements at the end of the loop's body: they restore these names."""
    names = bound_in(loop)
    if not names or not hasattr(loop, LOOP):
        return []
    text = f"{_KEPT}{getattr(loop, LOOP)}"
    lines = [f"    if {name!r} in {text}: {name} = {text}[{name!r}]" for name in names]
    made = ast.parse("\n".join([f"if {text}:", *lines])).body
    return [ast.copy_location(part, loop) for part in made]


def check_results(function: ast.FunctionDef) -> None:
    """Check a function's results if `return` stands in several places or not at the end.

    The compiler turns several results into scalars of one type.
    """
    returns = [node for node in ast.walk(function) if isinstance(node, ast.Return)]
    if all(node.value is None for node in returns) or (len(returns) == 1 and returns[0] is function.body[-1]):
        return
    for node in returns:
        node.value = _call("__result__", node.value or ast.Constant(None))
    if not isinstance(function.body[-1], ast.Return):
        function.body.append(ast.copy_location(ast.Return(_call("__result__", ast.Constant(None))), function.body[-1]))


def _bound(statements: Iterable[ast.stmt], changing: set[str]) -> ast.Tuple:
    """Build an expression for the names that statements assign, except as compile-time values.

    A compile-time condition contributes the names of its branch; it may not depend on names in `changing`.
    """
    return ast.Tuple([part for statement in statements for part in _binding(statement, changing)], ast.Load())


def _binding(statement: ast.stmt, changing: set[str]) -> Iterator[ast.expr]:
    match statement:
        case ast.Assign() | ast.AugAssign():
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            parts = (part for target in targets for part in ast.walk(target))
            yield from (ast.Constant(part.id) for part in parts if isinstance(part, ast.Name))
        case ast.If(test=test):
            branches = [_bound(branch, changing) for branch in (statement.body, statement.orelse)]
            names = [part for part in ast.walk(test) if isinstance(part, ast.Name)]
            rests = changing.intersection(name.id for name in names)
            if rests or not all(isinstance(part, _COMPILERS) for part in ast.walk(test)):
                yield from (part for branch in branches for part in branch.elts)
            elif any(branch.elts for branch in branches):
                asked = [ast.Tuple([*map(deepcopy, names)], ast.Load()), deepcopy(test), *branches]
                yield ast.Starred(_call("__there__", *map(_later, asked)), ast.Load())
        case _:
            inner = (part for part in ast.iter_child_nodes(statement) if isinstance(part, ast.stmt))
            yield from _bound(inner, changing).elts


def _evaluate_twice(loop: ast.expr) -> None:
    """Evaluate the argument of Python's `range(x)` twice and take the second value, as the compiler does."""
    match loop:
        case ast.Call(func=ast.Name(id="range") as counting, args=[bound]) if any(
            isinstance(part, ast.Call) for part in ast.walk(bound)
        ):
            loop.args = [_call("__bound__", counting, _later(bound))]


def _as_list(made: object) -> list[ast.stmt]:
    if isinstance(made, list):
        return made
    assert isinstance(made, ast.stmt)
    return [made]


def _later(value: ast.expr) -> ast.Lambda:
    return ast.Lambda(_NO_ARGUMENTS, value)


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])
