"""Extraction of device functions from a candidate's syntax tree, without anything else of its text.

Candidates are hostile. Only nodes from a list are copied, and every name is resolved. So neither importing the
extracted text nor compiling its kernels can run anything but Triton's language.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from service.export.aggregates import NAME, Aggregate, NotExtractable, plain_name, read_aggregate
from service.export.vocabulary import (
    AGGREGATES,
    ATTRIBUTES,
    BUILTINS,
    CONSTEXPR_FUNCTIONS,
    FIELDS,
    GLUON,
    HOST,
    LAYOUT_MAKERS,
    MODULES,
    UNSPOKEN,
    WORDS,
)
from service.operators.sources import parse, without_texts

__all__ = ["RESERVED", "ExtractedFunctions", "NotExtractable", "lift", "unspecialised"]

ALWAYS = {"torch": "torch", "triton": "triton", "tl": "triton.language"}
"""Names of the modules that every host code imports."""
RESERVED = {**ALWAYS, "gluon": GLUON}
"""Module names that host code uses; a candidate may not use them for anything else."""
JIT = {"triton.jit": "triton", "triton.runtime.jit.jit": "triton", f"{GLUON}.jit": "gluon"}
"""Decorators that make a device function, with the module whose `jit` each is."""
SPECIALISED = "do_not_specialize"
"""Argument of the decorator with the parameters that Triton compiles no kernel of their own for."""
OPTIONS = frozenset({SPECIALISED, "do_not_specialize_on_alignment", "noinline"})
"""Arguments of the decorator that change the compiled code; others are for debugging, or are code."""

_STATEMENTS = (
    *(ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.If, ast.For, ast.While, ast.Return, ast.Pass, ast.Assert),
)
_EXPRESSIONS = (
    *(ast.BoolOp, ast.BinOp, ast.UnaryOp, ast.IfExp, ast.Compare, ast.Call, ast.keyword, ast.Constant, ast.Attribute),
    *(ast.Subscript, ast.Name, ast.List, ast.Tuple, ast.Slice),
)
_MARKS = (ast.operator, ast.unaryop, ast.cmpop, ast.boolop, ast.expr_context)
_NODES = (*_STATEMENTS, *_EXPRESSIONS, *_MARKS)
_CONSTANT_NODES = (ast.UnaryOp, ast.BinOp, ast.Tuple, ast.List, *_MARKS)
_CONSTEXPR = ("triton.language.constexpr", f"{GLUON}.language.constexpr")
_MAKERS = frozenset(f"{GLUON}.{maker}" for maker in LAYOUT_MAKERS.values()) | {
    f"{GLUON}.language.NVMMASharedLayout.get_default_for"
}
# Functions that make the layouts of constants.
_PLAIN = (bool, int, float, str, type(None))


@dataclass(frozen=True)
class ExtractedFunctions:
    """Device functions with everything that they use.

    Attributes:
        imports: Import statements.
        constants: Assignments of constants, in the candidate's order.
        functions: Text of each function, and of each class of an aggregate, by name.
        parameters: Parameters of each function in order, by name; of a class none.
        bound: Names that the extracted text binds in its module.
    """

    imports: tuple[str, ...]
    constants: tuple[str, ...]
    functions: Mapping[str, str]
    parameters: Mapping[str, tuple[str, ...]]
    bound: frozenset[str]


def lift(source: str, names: Iterable[str]) -> ExtractedFunctions:
    """Extract functions of a candidate, with the functions and constants that they use.

    Raises:
        NotExtractable: If one is not a plain device function, or uses a word that is not on the list.
    """
    try:
        return _Extraction(without_texts(parse(source))).take(names)
    except SyntaxError as error:
        raise NotExtractable(f"its text cannot be parsed: {error.msg}") from error
    except RecursionError as error:
        raise NotExtractable("its text is nested too deep") from error


class _Extraction:
    """State of the extraction from one candidate."""

    def __init__(self, module: ast.Module) -> None:
        self._modules = dict(RESERVED)
        self._assigned: dict[str, ast.Assign | ast.AnnAssign] = {}
        self._defined: dict[str, ast.FunctionDef] = {}
        self._classes: dict[str, ast.ClassDef] = {}
        for node in module.body:
            self._read(node)
        self._aggregates = {name: read_aggregate(node) for name, node in self._classes.items() if self._is_value(node)}
        self._members = {name: own for each in self._aggregates.values() for name, own in each.members.items()}
        self._used: set[str] = set()
        self._constants: set[str] = set()
        self._functions: dict[str, ast.FunctionDef | ast.ClassDef] = {}
        self._waiting: list[str] = []

    def take(self, names: Iterable[str]) -> ExtractedFunctions:
        """Extract these functions and everything that they use."""
        self._waiting = list(names)
        while self._waiting:
            name = self._waiting.pop()
            if name not in self._functions:
                self._functions[name] = (
                    self._class(self._aggregates[name]) if name in self._aggregates else self._function(name)
                )
        lines = {name: node.lineno for name, node in {**self._defined, **self._classes}.items()}
        order = dict(sorted(lines.items(), key=lambda each: each[1]))
        functions = {name: self._functions[name] for name in sorted(self._functions, key=order.__getitem__)}
        return ExtractedFunctions(
            imports=tuple(
                sorted({_import(alias, self._modules[alias]) for alias in self._used | set(ALWAYS)}, key=_place)
            ),
            constants=tuple(_text(node) for name, node in self._assigned.items() if name in self._constants),
            functions={name: _text(node) for name, node in functions.items()},
            parameters={name: _parameters(node) for name, node in functions.items()},
            bound=frozenset((self._used - set(RESERVED)) | self._constants | set(functions)),
        )

    def _read(self, node: ast.stmt) -> None:
        """Record a module-level statement; the last one that binds a name counts."""
        if isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                self._alias(alias.asname or root, alias.name if alias.asname else root)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module != "__future__":
            for alias in node.names:
                self._alias(alias.asname or alias.name, f"{node.module}.{alias.name}")
        elif isinstance(node, ast.FunctionDef):
            self._defined[node.name] = node
        elif isinstance(node, ast.ClassDef):
            self._classes[node.name] = node
        elif isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            self._assigned[node.targets[0].id] = node
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
            self._assigned[node.target.id] = node

    def _alias(self, name: str, meaning: str) -> None:
        if RESERVED.get(name, meaning) != meaning:
            raise NotExtractable(f"it imports {meaning} as '{name}', the name of {RESERVED[name]} in host code")
        if any(meaning in words for words in (MODULES, WORDS, JIT, AGGREGATES, FIELDS, CONSTEXPR_FUNCTIONS)):
            self._modules[plain_name(name)] = meaning

    def _function(self, name: str) -> ast.FunctionDef:
        """Copy a function with all names checked, without decorators and annotations that Triton ignores."""
        found = self._defined.get(name)
        if found is None or name in self._modules or name in UNSPOKEN:
            raise NotExtractable(f"it launches '{name}', which is not a jit function of its module")
        return self._copied(found, name)

    def _class(self, aggregate: Aggregate) -> ast.ClassDef:
        """Copy the class of an aggregate: typed fields, a constructor that assigns them, and jit functions."""
        name = plain_name(aggregate.name)
        if name in self._modules or name in UNSPOKEN | BUILTINS:
            raise NotExtractable(f"a class is named '{name}', which is the name of something else")
        types = [each for annotation in aggregate.fields.values() for each in aggregate.types(annotation)]
        others = [each for each in types if not (isinstance(each, ast.Name) and each.id in self._aggregates)]
        self._waiting += [each.id for each in types if isinstance(each, ast.Name) and each not in others]
        allowed = [(each, FIELDS) for each in others]
        allowed += [(each, CONSTEXPR_FUNCTIONS.union(_CONSTEXPR)) for each in aggregate.words]
        for each, words in allowed:
            if self._meaning(each) not in words:
                raise NotExtractable(f"the class '{name}' uses {ast.unparse(each)!a:.80}, which is not exported")
            self._use(each)
        methods = [self._copied(each, aggregate.members[each.name]) for each in aggregate.methods]
        (decorator,) = aggregate.node.decorator_list
        self._use(decorator)
        return aggregate.written(decorator, methods)

    def _copied(self, found: ast.FunctionDef, name: str) -> ast.FunctionDef:
        """Copy a jit function under a name."""
        given, taken = found.args, found.args.args
        if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs:
            raise NotExtractable(f"'{name}' has parameters that are not plain")
        bound = {plain_name(each.arg) for each in taken} | _stored(found)
        shadowed = bound & (self._modules.keys() | UNSPOKEN)
        if shadowed:
            raise NotExtractable(f"'{name}' has a variable '{min(shadowed)}', which shadows another name")
        for statement in found.body:
            self._look(statement, bound)
        arguments = [ast.arg(each.arg, self._annotation(each.annotation)) for each in taken]
        return ast.FunctionDef(
            name=plain_name(name),
            args=ast.arguments([], arguments, None, [], [], None, [self._constant(each) for each in given.defaults]),
            body=found.body,
            decorator_list=[self._decorator(found)],
        )

    def _decorator(self, function: ast.FunctionDef) -> ast.expr:
        """Return the `jit` with its relevant options; the plan already contains the effect of other decorators."""
        for node in function.decorator_list:
            call = node if isinstance(node, ast.Call) else ast.Call(node, [], [])
            module = JIT.get(self._meaning(call.func))
            if module is not None:
                self._used.add(module)
                said = [_option(each) for each in call.keywords if each.arg in OPTIONS]
                plain = ast.Attribute(ast.Name(module, ast.Load()), "jit", ast.Load())
                return ast.Call(plain, [], said) if said else plain
        raise NotExtractable(f"'{function.name}' is not decorated with @triton.jit or @gluon.jit")

    def _is_value(self, node: ast.ClassDef) -> bool:
        return any(self._meaning(each) in AGGREGATES for each in node.decorator_list)

    def _annotation(self, node: ast.expr | None) -> ast.expr | None:
        """Return an annotation if it is a word of Triton's; others are for people."""
        meaning = "" if node is None else self._meaning(node)
        if node is None or meaning not in WORDS or not meaning.startswith(("triton.language.", f"{GLUON}.language.")):
            return None
        self._use(node)
        return node

    def _meaning(self, node: ast.expr) -> str:
        """Return the full name that a name with its attributes resolves to; empty if unknown."""
        if isinstance(node, ast.Name):
            return self._modules.get(node.id, "")
        if isinstance(node, ast.Attribute) and (owner := self._meaning(node.value)):
            return f"{owner}.{node.attr}"
        return ""

    def _use(self, node: ast.expr) -> None:
        while isinstance(node, ast.Attribute):
            node = node.value
        assert isinstance(node, ast.Name)
        self._used.add(node.id)

    def _look(self, node: ast.AST, bound: set[str]) -> None:
        """Check a node of a function's body, and its descendants, against the list."""
        if not isinstance(node, _NODES):
            raise NotExtractable(f"a kernel has a {type(node).__name__}{_at(node)}, which is not exported")
        if isinstance(node, ast.expr) and self._meaning(node) in WORDS:
            self._use(node)
            return
        match node:
            case ast.Constant():
                _literal(node)
            case ast.Name():
                self._name(node, bound)
            case ast.Attribute() if node.attr in self._members:
                node.attr = self._members[node.attr]
            case ast.Attribute() if node.attr not in ATTRIBUTES and node.attr not in self._members.values():
                raise NotExtractable(
                    f"a kernel uses .{node.attr}{_at(node)}, which is not on the list of exported words"
                )
            case ast.AnnAssign():
                node.annotation = self._annotation(node.annotation) or ast.Constant(None)
        for child in ast.iter_child_nodes(node):
            self._look(child, bound)

    def _name(self, node: ast.Name, bound: set[str]) -> None:
        if node.id in bound:
            plain_name(node.id)
        elif node.id in {**self._defined, **self._aggregates} and node.id not in self._modules:
            self._waiting.append(node.id)
        elif node.id in self._assigned and node.id not in self._modules:
            self._keep(node.id)
        elif node.id not in BUILTINS:
            raise NotExtractable(f"a kernel uses '{node.id}'{_at(node)}, which is not on the list of exported words")

    def _keep(self, name: str) -> None:
        """Copy a constant, whose value may use constants only."""
        if name in self._constants:
            return
        if name in UNSPOKEN | BUILTINS:
            raise NotExtractable(f"a constant is named '{name}', which is the name of a builtin")
        self._constants.add(plain_name(name))
        node = self._assigned[name]
        assert node.value is not None
        value = self._constant(node.value)
        annotation = self._annotation(node.annotation) if isinstance(node, ast.AnnAssign) else None
        target = ast.Name(name, ast.Store())
        self._assigned[name] = (
            ast.AnnAssign(target, annotation, value, 1) if annotation else ast.Assign([target], value)
        )

    def _constant(self, node: ast.expr) -> ast.expr:
        """Check an expression that is evaluated at import: words, numbers, arithmetic and layouts only."""
        if self._is_word(node):
            return node
        if isinstance(node, ast.Constant):
            _literal(node)
        elif isinstance(node, ast.Name) and node.id in self._assigned:
            self._keep(node.id)
        elif isinstance(node, ast.Call) and (self._makes(node) if node.keywords else self._computes(node.func)):
            for each in (*node.args, *(keyword.value for keyword in node.keywords)):
                self._constant(each)
        elif isinstance(node, _CONSTANT_NODES):
            for child in ast.iter_child_nodes(node):
                if isinstance(child, ast.expr):
                    self._constant(child)
        else:
            raise NotExtractable(f"a constant is computed by a {type(node).__name__}{_at(node)}, which is not exported")
        return node

    def _is_word(self, node: ast.expr) -> bool:
        """Return True for a word, and for a choice such as `getattr(tma, "async_load", None) or tma.load`.

        Releases of Triton name some words of Gluon differently.
        """
        match node:
            case ast.BoolOp(op=ast.Or(), values=values):
                return all([self._is_word(each) for each in values])
            case ast.Call(
                func=ast.Name(id="getattr"),
                args=[owner, ast.Constant(value=str(name)), ast.Constant(value=None)],
                keywords=[],
            ) if not self._binds("getattr"):
                meaning, node = f"{self._meaning(owner)}.{name}", owner
            case _:
                meaning = self._meaning(node)
        if meaning not in WORDS:
            return False
        self._use(node)
        return True

    def _makes(self, node: ast.Call) -> bool:
        """Return True if a call makes a layout, with arguments that are named one by one."""
        return self._computes(node.func) and self._meaning(node.func) in _MAKERS and all(e.arg for e in node.keywords)

    def _computes(self, node: ast.expr) -> bool:
        meaning = self._meaning(node)
        if meaning in HOST or meaning in _CONSTEXPR or meaning in _MAKERS:
            self._use(node)
            return True
        return isinstance(node, ast.Name) and node.id in ("float", "int", "bool") and not self._binds(node.id)

    def _binds(self, name: str) -> bool:
        return name in self._assigned or name in self._defined or name in self._modules


def unspecialised(text: str, name: str, parameters: Sequence[str]) -> str:
    """Return an extracted device function under another name, which Triton does not specialise by some parameters.

    Args:
        text: The function's text.
        name: Its new name.
        parameters: The parameters, by name.
    """
    function = ast.parse(text).body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name = name
    decorator = function.decorator_list[0]
    call = decorator if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
    known = next((each.value for each in call.keywords if each.arg == SPECIALISED), None)
    before = ast.literal_eval(known) if known is not None else []
    order = [each.arg for each in function.args.args]
    named = [
        order[each] if isinstance(each, int) else each for each in ([before] if isinstance(before, str) else before)
    ]
    listed: list[ast.expr] = [ast.Constant(each) for each in dict.fromkeys((*named, *parameters))]
    call.keywords = [each for each in call.keywords if each.arg != SPECIALISED]
    call.keywords.append(ast.keyword(SPECIALISED, ast.List(listed, ast.Load())))
    function.decorator_list = [call]
    return _text(function)


def _parameters(node: ast.FunctionDef | ast.ClassDef) -> tuple[str, ...]:
    return () if isinstance(node, ast.ClassDef) else tuple(each.arg for each in node.args.args)


def _stored(function: ast.FunctionDef) -> set[str]:
    names = (node for node in ast.walk(function) if isinstance(node, ast.Name))
    return {node.id for node in names if isinstance(node.ctx, ast.Store)}


def _option(keyword: ast.keyword) -> ast.keyword:
    try:
        value = ast.literal_eval(keyword.value)
    except (ValueError, TypeError, RecursionError) as error:
        raise NotExtractable(f"{keyword.arg} of @triton.jit is not a literal") from error
    items = value if isinstance(value, list | tuple) else [value]
    if not all(isinstance(item, bool | int) or (isinstance(item, str) and NAME.fullmatch(item)) for item in items):
        raise NotExtractable(f"{keyword.arg} of @triton.jit is neither a flag nor a list of parameters")
    return keyword


def _literal(node: ast.Constant) -> None:
    if not isinstance(node.value, _PLAIN):
        raise NotExtractable(f"it has a {type(node.value).__name__}{_at(node)}, which is not exported")
    if isinstance(node.value, str) and not node.value.isascii():
        raise NotExtractable(f"it has a text that is not ASCII{_at(node)}")


def _at(node: ast.AST) -> str:
    line = getattr(node, "lineno", None)
    return f" (line {line})" if line else ""


def _import(alias: str, meaning: str) -> str:
    module, _, name = meaning.rpartition(".")
    if meaning in MODULES and (alias != name or not module):
        return f"import {meaning}" if alias == meaning else f"import {meaning} as {alias}"
    return f"from {module} import {name}" if alias == name else f"from {module} import {name} as {alias}"


def _place(statement: str) -> tuple[bool, str]:
    return statement.startswith("from"), statement


def _text(node: ast.AST) -> str:
    try:
        return ast.unparse(ast.fix_missing_locations(node))
    except (ValueError, RecursionError, MemoryError) as error:
        raise NotExtractable(f"it cannot be written as text: {error}") from error
