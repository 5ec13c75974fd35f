"""Syntax trees of candidates: normal form, digest, jit functions and their launches."""

import ast
import hashlib
import itertools
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import lru_cache

REMEMBERED = 1024
"""Number of cached digests, with texts of some kilobytes each: one proposal needs its digest three times."""

LAUNCH_OPTIONS = ("num_warps", "num_stages", "num_ctas", "maxnreg", "enable_fp_fusion")
"""Keywords of a launch for Triton, not for the kernel; the contract allows no others."""

_OPAQUE = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom),
    *(ast.Global, ast.Nonlocal, ast.Try, ast.TryStar, ast.Match),
)
"""Statements that keep a function's locals from being renamed: they bind names in ways not analysed here."""

_REFLECTION = {"locals", "globals", "vars", "eval", "exec", "dir"}
"""Builtins that can see a local's name."""


def parse(source: str) -> ast.Module:
    """Parse a source.

    Raises:
        SyntaxError: If Python cannot parse it; other exceptions of the parser are converted.
    """
    try:
        try:
            return ast.parse(source)
        except SystemError:
            # CPython before 3.11.8 fails when another parse runs meanwhile, in a thread or a finalizer (gh-106905).
            return ast.parse(source)
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"Python's parser gave up: {error}") from error


def render(module: ast.Module) -> str:
    """Write a tree as text, in one canonical formatting and without comments.

    Raises:
        SyntaxError: If the tree cannot be written, such as one nested too deep.
    """
    try:
        return ast.unparse(ast.fix_missing_locations(module)) + "\n"
    except (ValueError, RecursionError, MemoryError) as error:
        raise SyntaxError(f"Python cannot write the tree: {error}") from error


def normalise(source: str) -> str:
    """Return the program without comments, docstrings, formatting and names of locals.

    Parameters keep their names because launches pass them by keyword.

    Raises:
        SyntaxError: If the source cannot be parsed.
    """
    module = parse(source)
    try:
        without_texts(module)
        for function in _functions(module):
            _rename_locals(function)
    except RecursionError as error:
        raise SyntaxError("the source is nested too deep") from error
    return render(module)


def without_texts(module: ast.Module) -> ast.Module:
    """Remove statements that are string constants, mostly docstrings, from a tree, in place."""
    for node in walk(module):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list):
                kept = [item for item in block if not _is_text(item)]
                setattr(node, name, kept if kept or not block or isinstance(node, ast.Module) else [ast.Pass()])
    return module


@lru_cache(REMEMBERED)
def digest(source: str) -> str:
    """Return the SHA-256 of the normal form, or of the text itself if Python cannot parse it."""
    try:
        text = normalise(source)
    except SyntaxError:
        text = source
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def walk(root: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and its descendants in the order of `ast.walk`, in half its time: rules walk trees often."""
    nodes = [root]
    for node in nodes:
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                nodes.append(value)
            elif isinstance(value, list):
                nodes += [item for item in value if isinstance(item, ast.AST)]
        yield node


def dotted(node: ast.AST) -> str:
    """Return a name with its attributes, such as `tl.load`; empty for any other expression."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def decorators(function: ast.FunctionDef) -> list[str]:
    """Return the dotted names of a function's decorators, called ones included."""
    return [dotted(item.func if isinstance(item, ast.Call) else item) for item in function.decorator_list]


TRITON_JIT, GLUON_JIT = frozenset({"triton.jit", "jit"}), frozenset({"gluon.jit"})
"""Decorators of device functions in Triton and in Gluon, whose words and layouts differ."""


def jit_functions(module: ast.Module, jit: Set[str] = TRITON_JIT) -> dict[str, ast.FunctionDef]:
    """Return the module's device functions by name, those with some decorators."""
    return {
        item.name: item for item in module.body if isinstance(item, ast.FunctionDef) and jit & set(decorators(item))
    }


@dataclass(frozen=True)
class LaunchSite:
    """Launch `kernel[grid](...)`: the call, its kernel, and the module-level function that contains it."""

    call: ast.Call
    kernel: ast.FunctionDef
    host: ast.FunctionDef

    @property
    def subscript(self) -> ast.Subscript:
        """Part `kernel[grid]` of the call."""
        assert isinstance(self.call.func, ast.Subscript)
        return self.call.func

    @property
    def keywords(self) -> dict[str, ast.keyword]:
        """Keyword arguments, by name."""
        return {item.arg: item for item in self.call.keywords if item.arg}


def launches(module: ast.Module, jit: Set[str] = TRITON_JIT) -> list[LaunchSite]:
    """Return the launches of the module's own kernels with some decorators, in text order."""
    kernels = jit_functions(module, jit)
    return [
        LaunchSite(node, kernels[name], host)
        for host in _functions(module)
        if host.name not in kernels
        for node in walk(host)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Subscript)
        and (name := dotted(node.func.value)) in kernels
    ]


def _functions(module: ast.Module) -> Iterator[ast.FunctionDef]:
    return (item for item in module.body if isinstance(item, ast.FunctionDef))


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _rename_locals(function: ast.FunctionDef) -> None:
    """Number a function's locals in order of first assignment, unless that could change the program."""
    inner = [node for statement in function.body for node in walk(statement)]
    names = [node for node in inner if isinstance(node, ast.Name)]
    if any(isinstance(node, _OPAQUE) for node in inner) or _REFLECTION & {node.id for node in names}:
        return
    bound = {node.arg for node in walk(function) if isinstance(node, ast.arg)}
    bound |= {name.id for node in inner if isinstance(node, ast.comprehension) for name in _names(node.target)}
    stored = dict.fromkeys(node.id for node in names if isinstance(node.ctx, ast.Store) and node.id not in bound)
    taken = bound | ({node.id for node in names} - set(stored))
    fresh = (name for count in itertools.count() if (name := f"v{count}") not in taken)
    numbers = dict(zip(stored, fresh, strict=False))
    for node in names:
        node.id = numbers.get(node.id, node.id)


def _names(target: ast.AST) -> Iterator[ast.Name]:
    return (node for node in walk(target) if isinstance(node, ast.Name))
