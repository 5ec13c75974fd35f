"""The part of a candidate's module that its entry needs. The rest, such as examples, tests and plots, does not run.

Published files import what only their benchmarks use, and call their function at the end. Leaving that out changes no
plan: what a name stands for comes from the statements that bind it, or that change what it stands for.
"""

import ast
import builtins
import symtable
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

_DYNAMIC = frozenset(
    {"globals", "locals", "vars", "eval", "exec", "compile", "setattr", "delattr", "__import__", "__builtins__"}
)
# Names with which code reads, binds or changes others that no look at the syntax finds.
_CHANGES = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "clear", "sort", "reverse", "add", "discard", "update"),
        *("setdefault", "popitem", "register", "impl", "define"),
    }
)
# Methods that change their object.
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)


@dataclass(frozen=True)
class _Statement:
    """A statement of a module's top level.

    Attributes:
        node: The statement.
        binds: Names that it binds in the module, also from within functions that say `global`.
        reads: Names of the module that it reads now, or later in a function.
        changes: Names whose object it changes, for a definition when it is called.
        asks: The module that it calls a function of as a whole, as `torch.manual_seed(0)` does.
        calls: Names of functions that it calls as a whole, or that decorate what it defines.
    """

    node: ast.stmt
    binds: frozenset[str]
    reads: frozenset[str]
    changes: frozenset[str]
    asks: frozenset[str]
    calls: frozenset[str]


def needed_part(tree: ast.Module, entries: Collection[str]) -> ast.Module:
    """Return the module without the statements that none of the entries needs, with the same line numbers.

    All of it is returned if it defines none of the entries, or if a part that runs looks names up by their text.
    """
    aliases = dict(_aliases(tree))
    statements = [_describe(node, aliases) for node in tree.body if not never_runs(node)]
    wanted = set(entries)
    if not any(wanted & statement.binds for statement in statements):
        return tree
    kept = [_is_always_needed(statement.node) for statement in statements]
    changing = True
    while changing:
        changing = False
        writers = _writers(statements, wanted)
        for index, statement in enumerate(statements):
            if not kept[index] and (statement.calls & writers or _is_needed(statement, wanted)):
                kept[index] = changing = True
                wanted |= statement.reads
    running = zip(statements, kept, strict=True)
    if any(each.reads & _DYNAMIC for each, is_kept in running if is_kept or not isinstance(each.node, _DEFINITIONS)):
        return tree
    return ast.Module([each.node for each, is_kept in zip(statements, kept, strict=True) if is_kept], tree.type_ignores)


def never_runs(node: ast.stmt) -> bool:
    """True for `if TYPE_CHECKING:` and `if __name__ == "__main__":` without `else`."""
    if not isinstance(node, ast.If) or node.orelse:
        return False
    return ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING", "__name__ == '__main__'")


def _is_always_needed(node: ast.stmt) -> bool:
    match node:
        case ast.ImportFrom(module="__future__"):
            return True
        case ast.ImportFrom(names=[ast.alias(name="*")]):
            return True
        case ast.Expr(value=ast.Constant()):
            return True
    return False


def _is_needed(statement: _Statement, wanted: Collection[str]) -> bool:
    """True if a statement binds a wanted name, or changes what one stands for.

    A call of a module may do so; one that reads what only examples bind is an example.
    """
    if statement.binds.intersection(wanted):
        return True
    if isinstance(statement.node, _DEFINITIONS):
        return False
    if statement.changes.intersection(wanted):
        return True
    return bool(statement.asks.intersection(wanted)) and statement.reads <= {*wanted, *dir(builtins)}


def _writers(statements: Sequence[_Statement], wanted: Collection[str]) -> set[str]:
    """Return the functions that bind wanted names by `global`, or change what one stands for, and all wanted objects.

    A decorator that is a method, as in `@operator.register_fake`, changes its object.
    """
    found = set()
    for each in statements:
        name = _name(each.node)
        if name and (each.binds - {name}).union(each.changes).intersection(wanted):
            found.add(name)
    imported = frozenset[str]().union(*(each.binds for each in statements if isinstance(each.node, _IMPORTS)))
    return found | {f"{name}." for name in wanted if name not in imported}


def _name(node: ast.stmt) -> str:
    return node.name if isinstance(node, _DEFINITIONS) else ""


def _describe(node: ast.stmt, aliases: Mapping[str, str]) -> _Statement:
    none = frozenset[str]()
    if isinstance(node, _IMPORTS):
        binds = {alias.asname or alias.name.partition(".")[0] for alias in node.names}
        return _Statement(node, frozenset(binds), none, none, none, none)
    table = symtable.symtable(ast.unparse(ast.fix_missing_locations(node)), "<statement>", "exec")
    binds = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_assigned() or symbol.is_imported()}
    binds |= {symbol.get_name() for symbol in table.get_symbols() if symbol.is_namespace()}
    reads = {symbol.get_name() for symbol in table.get_symbols() if symbol.is_referenced()}
    for inner in _inner(table):
        for symbol in inner.get_symbols():
            if symbol.is_declared_global() and symbol.is_assigned():
                binds.add(symbol.get_name())
            if symbol.is_global() and symbol.is_referenced():
                reads.add(symbol.get_name())
    changes = {name for changed in _changed(node) if changed in reads for name in _owners(changed, aliases)}
    asks = {_root(function) for function in _called(node) if isinstance(function, ast.Attribute)}
    return _Statement(
        node, frozenset(binds), frozenset(reads), frozenset(changes), frozenset(asks), frozenset(_callers(node))
    )


def _aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Yield names that stand for a part of another name's object, such as `plan` in `plan = module.Recorder.plan`."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=owner):
                yield from ((name, root) for root in [_owner(owner)] if root)
            case ast.For(target=ast.Name(id=name), iter=owner):
                yield from ((name, root) for root in [_owner(owner)] if root)


def _owner(expression: ast.expr) -> str:
    return "" if any(isinstance(node, ast.Call) for node in ast.walk(expression)) else _root(expression)


def _owners(name: str, aliases: Mapping[str, str]) -> set[str]:
    """Return a name, and all that it is a part of."""
    found = {name}
    while (name := aliases.get(name, name)) not in found:
        found.add(name)
    return found


def _inner(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    for child in table.get_children():
        yield child
        yield from _inner(child)


def _changed(node: ast.stmt) -> Iterator[str]:
    """Yield the names whose object a statement changes when it, or the function that it defines, runs."""
    for part in ast.walk(node):
        match part:
            case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
                yield _root(part)
            case ast.Call(func=ast.Attribute(attr=method) as function) if method in _CHANGES:
                yield _root(function)


def _called(node: ast.stmt) -> list[ast.expr]:
    """Return the function that a statement calls as a whole, if it is such a call."""
    return [node.value.func] if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) else []


def _callers(node: ast.stmt) -> Iterator[str]:
    """Yield the functions that a statement calls as a whole, or that decorate it; for a method its object and a dot."""
    decorators = getattr(node, "decorator_list", ())
    for function in (*_called(node), *(each.func if isinstance(each, ast.Call) else each for each in decorators)):
        if isinstance(function, ast.Name):
            yield function.id
        elif isinstance(function, ast.Attribute) and isinstance(node, _DEFINITIONS):
            yield f"{_root(function)}."


def _root(expression: ast.AST) -> str:
    while isinstance(expression, ast.Attribute | ast.Subscript | ast.Call):
        expression = expression.func if isinstance(expression, ast.Call) else expression.value
    return expression.id if isinstance(expression, ast.Name) else ""
