"""Aggregates of Gluon: classes whose values are several values of a kernel, read from a candidate's syntax tree.

Triton runs a constructor as Python while it compiles. So it may only assign its parameters to fields.
"""

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from service.export.vocabulary import ATTRIBUTES, OWN

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
"""Pattern of names that are extracted: ASCII only, so that no name looks like another."""
CONSTRUCTOR = "__init__"


class NotExtractable(Exception):
    """Refusal to extract a candidate's device functions; `str` gives the reason, for people."""


@dataclass(frozen=True)
class Aggregate:
    """One class.

    Attributes:
        node: Its definition.
        fields: Annotation of each field, by its name.
        constructor: The constructor.
        methods: The other functions, which are jit functions.
        members: Name of each field and method in an exported module, by its own.
        words: Names in the constructor that are neither parameters nor fields, with its decorator.
    """

    node: ast.ClassDef
    fields: Mapping[str, ast.expr]
    constructor: ast.FunctionDef
    methods: Sequence[ast.FunctionDef]
    members: Mapping[str, str]
    words: Sequence[ast.expr]

    @property
    def name(self) -> str:
        """Name of the class."""
        return self.node.name

    @staticmethod
    def types(annotation: ast.expr) -> Iterator[ast.expr]:
        """Yield the types of a field: those of a union, or the only one."""
        if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
            yield from Aggregate.types(annotation.left)
            yield from Aggregate.types(annotation.right)
        else:
            yield annotation

    def written(self, decorator: ast.expr, methods: Sequence[ast.FunctionDef]) -> ast.ClassDef:
        """Return the class with checked methods, its members renamed."""
        fields = [
            ast.AnnAssign(ast.Name(self.members[name], ast.Store()), annotation, None, 1)
            for name, annotation in self.fields.items()
        ]
        made = self.constructor
        for statement in made.body:
            if isinstance(statement, ast.Assign) and isinstance(target := statement.targets[0], ast.Attribute):
                target.attr = self.members.get(target.attr, target.attr)
        arguments = [ast.arg(each.arg) for each in made.args.args]
        bare = ast.FunctionDef(
            name=CONSTRUCTOR,
            args=ast.arguments([], arguments, None, [], [], None, []),
            body=made.body,
            decorator_list=made.decorator_list,
        )
        return ast.ClassDef(self.name, [], [], [*fields, bare, *methods], [decorator])


def read_aggregate(node: ast.ClassDef) -> Aggregate:
    """Read a class that is decorated as an aggregate.

    Raises:
        NotExtractable: If it has anything but typed fields, a constructor that assigns them, and functions.
    """
    if node.bases or node.keywords or len(node.decorator_list) != 1:
        raise NotExtractable(f"the class '{node.name!a:.80}' has bases or further decorators, which are not exported")
    fields = {
        plain_name(each.target.id): each.annotation
        for each in node.body
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name) and each.value is None
    }
    functions = [each for each in node.body if isinstance(each, ast.FunctionDef)]
    others = len([each for each in node.body if not isinstance(each, ast.Pass)]) - len(fields) - len(functions)
    made = [each for each in functions if each.name == CONSTRUCTOR]
    if others or len(made) != 1:
        raise NotExtractable(f"the class '{node.name!a:.80}' has more than typed fields, a constructor and functions")
    methods = [each for each in functions if each.name != CONSTRUCTOR]
    names = [*fields, *(plain_name(each.name) for each in methods)]
    if len(set(names)) < len(names):
        raise NotExtractable(f"the class '{node.name!a:.80}' has two members of one name")
    members = {name: name if name in ATTRIBUTES else f"{OWN}{name}" for name in names}
    return Aggregate(node, fields, made[0], methods, members, _assigned(node.name, made[0], fields))


def _assigned(name: str, made: ast.FunctionDef, fields: Mapping[str, ast.expr]) -> list[ast.expr]:
    """Return the words of a constructor, which may only assign parameters, numbers, or constants made of them."""
    given = made.args
    if given.vararg or given.kwarg or given.kwonlyargs or given.posonlyargs or given.defaults or not given.args:
        raise NotExtractable(f"the constructor of '{name!a:.80}' has parameters that are not plain")
    own, *parameters = [plain_name(each.arg) for each in given.args]
    words = list(made.decorator_list)
    for statement in made.body:
        match statement:
            case ast.Assign(targets=[ast.Attribute(value=ast.Name(id=target), attr=field)], value=value) if (
                target == own and field in fields
            ):
                words += _word_of(name, value, parameters)
            case ast.Pass():
                pass
            case _:
                raise NotExtractable(f"the constructor of '{name!a:.80}' does more than to assign fields")
    return words


def _word_of(name: str, value: ast.expr, parameters: Sequence[str]) -> list[ast.expr]:
    match value:
        case ast.Name(id=given) if given in parameters:
            return []
        case ast.Constant(value=bool() | int() | float() | None):
            return []
        case ast.Call(func=word, args=[inner], keywords=[]) if isinstance(inner, ast.Name | ast.Constant):
            return [word, *_word_of(name, inner, parameters)]
    raise NotExtractable(f"the constructor of '{name!a:.80}' assigns more than its parameters")


def plain_name(name: str) -> str:
    """Return a name that is plain.

    Raises:
        NotExtractable: If it is not, or Python gives it a meaning.
    """
    if not NAME.fullmatch(name) or name.startswith("__"):
        raise NotExtractable(f"it uses a name that is not plain: {name!a:.80}")
    return name
