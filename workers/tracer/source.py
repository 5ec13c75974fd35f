"""The candidate's source: its allowed imports, and its loading."""

import ast
import builtins
import linecache
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from importlib.metadata import PackageNotFoundError
from types import CodeType, ModuleType
from typing import Any, NoReturn

from torch._vendor import packaging
from torch._vendor.packaging import version

from workers.protocol import Outcome, Stage
from workers.tracer.needed import needed_part, never_runs
from workers.tracer.refusal import SOURCE_NAME, TraceRefused

MODULE_NAME = "candidate"
"""Name of the candidate's module."""

ALLOWED_IMPORTS = (
    *("torch", "triton", "triton.language", "math", "typing", "__future__"),
    *("abc", "bisect", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "enum", "functools"),
    *("heapq", "itertools", "logging", "numbers", "operator", "os", "re", "string", "textwrap", "types", "warnings"),
    *("einops", "importlib", "importlib.metadata", "importlib.util", "packaging", "packaging.version"),
    "typing_extensions",
    *("torch.amp", "torch.autograd", "torch.cuda", "torch.library", "torch.nn", "torch.types", "torch.version"),
    *("triton.experimental.gluon", "triton.runtime", "triton.testing", "triton.tools.tensor_descriptor"),
)
"""Modules that a candidate may import, those of `OPEN` with their submodules. Attacks through each of them are in
`tests/workers/rogues/test_imports.py`. The interpreter has a shorter list of its own."""
OPEN = (
    *("triton.language", "triton.experimental.gluon", "triton.runtime"),
    *("torch.amp", "torch.autograd", "torch.cuda", "torch.nn"),
)
"""Allowed modules whose submodules are allowed too, such as `triton.language.extra.libdevice`."""
FAILING = ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")
"""Handlers after which a candidate goes on without a module."""

_PARTLY = ("triton.experimental", "triton.tools")
# Packages of which only some modules are allowed: `from triton.experimental import gluon`.
_PACKAGING = {"packaging": packaging, "packaging.version": version}
# torch's own copy; where torch is installed, `packaging` itself may be missing.
_OF_OS = ("environ", "getenv")
# Members of `os` that a candidate may use; the environment that it sees is empty.
_ADVICE = (
    "a candidate may import torch, triton, their parts that harm nothing, and such modules as math, typing, functools, "
    "dataclasses or logging"
)
_BESIDE = "give files of its own package beside it, as in `reef judge SPEC KERNEL.py OTHER.py`"


@dataclass(frozen=True)
class ParsedSource:
    """A candidate's module before it runs.

    Attributes:
        text: Its text.
        code: The code of the part that its entries need.
        allowed: Modules that it may import.
        optional: Modules without which it goes on: it is told that they are not there.
        unused: Other modules that it may not import, with the line of each. It gets a stand-in for each, and is refused
            when it uses one.
        skipped: Submodules of allowed packages that it imports and never names; it gets the package alone.
    """

    text: str
    code: CodeType
    allowed: Sequence[str]
    optional: frozenset[str]
    unused: Mapping[str, int]
    skipped: frozenset[str]


def parse(source: str, allowed: Sequence[str] = ALLOWED_IMPORTS, entries: Collection[str] = ()) -> ParsedSource:
    """Compile what the entries need of a source, after checking its imports against the list.

    Raises:
        TraceRefused: `syntax_error`, or `forbidden_import` with all modules and the first line.
    """
    try:
        tree = ast.parse(source, SOURCE_NAME)
        compile(tree, SOURCE_NAME, "exec")
        tree = needed_part(tree, entries)
        code = compile(tree, SOURCE_NAME, "exec")
    except SyntaxError as error:
        raise TraceRefused(
            Outcome.SYNTAX_ERROR, f"{error.msg}: {(error.text or '').strip()}", Stage.PARSE, error.lineno or 1
        ) from None
    except (ValueError, RecursionError) as error:
        raise TraceRefused(Outcome.SYNTAX_ERROR, str(error), Stage.PARSE, 1) from None
    found = [(module, line) for module, line in _imports(tree) if not _is_allowed(module, allowed)]
    optional = frozenset(module for module, line in found if line in _optional_lines(tree))
    refused = {module: line for module, line in reversed(found) if module not in optional}
    binding, skipped = _bound_by_imports(tree, allowed), _never_named(tree, allowed)
    refused = {module: line for module, line in refused.items() if module not in skipped}
    if refused.keys() - binding:
        raise _refusal(refused)
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    unused = {module: line for module, line in refused.items() if used.intersection(binding[module])}
    return ParsedSource(source, code, allowed, optional, dict.fromkeys(refused, 0) | unused, skipped)


def load(candidate: ParsedSource) -> ModuleType:
    """Execute a source as a module in which Triton can read the text of functions.

    Raises:
        BaseException: Any exception of the source, or its refusal.
    """
    module = ModuleType(MODULE_NAME)
    module.__file__ = SOURCE_NAME
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _guarded_import(candidate)}
    sys.modules[MODULE_NAME] = module
    text = candidate.text
    linecache.cache[SOURCE_NAME] = (len(text), None, text.splitlines(keepends=True), SOURCE_NAME)
    exec(candidate.code, module.__dict__)
    return module


def _imports(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the modules that a tree imports, and what it uses of `os` beyond its environment."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.If() if never_runs(node):
                continue
            case ast.Import(names=names):
                yield from ((alias.name, node.lineno) for alias in names)
            case ast.ImportFrom(module="os", level=0, names=names):
                yield from ((f"os.{alias.name}", node.lineno) for alias in names if alias.name not in _OF_OS)
            case ast.ImportFrom(module=str(module), level=0, names=names) if module in _PARTLY:
                yield from ((f"{module}.{alias.name}", node.lineno) for alias in names)
            case ast.ImportFrom(module=module, level=level):
                yield "." * level + (module or ""), node.lineno
        yield from _imports(node)


def _optional_lines(tree: ast.Module) -> set[int]:
    """Return the lines that a handler of failed imports covers."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(map(_handles_imports, node.handlers)):
            lines.update(range(node.body[0].lineno, (node.body[-1].end_lineno or 0) + 1))
    return lines


def _handles_imports(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in FAILING) for kind in kinds)


def _is_allowed(module: str, allowed: Sequence[str]) -> bool:
    is_open = (name in OPEN or name not in ALLOWED_IMPORTS for name in allowed if module.startswith(f"{name}."))
    return module in allowed or any(is_open)


def _bound_by_imports(tree: ast.AST, allowed: Sequence[str]) -> dict[str, set[str]]:
    """Return the names that imports bind, by module; without imports whose names a stand-in cannot stand for."""
    found: dict[str, set[str]] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                for alias in names:
                    if alias.asname or not _is_allowed(alias.name.partition(".")[0], allowed):
                        found.setdefault(alias.name, set()).add(alias.asname or alias.name.partition(".")[0])
            case ast.ImportFrom(module="os", level=0, names=names):
                for alias in names:
                    found.setdefault(f"os.{alias.name}", set()).add(alias.asname or alias.name)
            case ast.ImportFrom(module=module, level=level, names=names) if module not in _PARTLY:
                named = "." * level + (module or "")
                found.setdefault(named, set()).update(alias.asname or alias.name for alias in names)
    return {module: names for module, names in found.items() if "*" not in names}


def _never_named(tree: ast.AST, allowed: Sequence[str]) -> frozenset[str]:
    """Return submodules of allowed packages that `import torch.a.b` names, and nothing else does.

    Such an import may be for what it does, which is nothing here, or a leftover.
    """
    named = {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
    found, others = set[str](), set[str]()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                package, _, rest = alias.name.partition(".")
                is_alone = rest and alias.asname is None and package in allowed and not _is_allowed(alias.name, allowed)
                (found if is_alone else others).add(alias.name)
        elif isinstance(node, ast.ImportFrom):
            others.add(node.module or "")
    prefixes = {module: ".".join(module.split(".")[:2]) for module in found - others}
    return frozenset(module for module, prefix in prefixes.items() if prefix not in named)


def _refusal(refused: Mapping[str, int]) -> TraceRefused:
    """Name modules, in the order of their lines."""
    named = ", ".join(f"'{module}'" for module in sorted(refused, key=refused.__getitem__))
    line = min(refused.values()) or None
    beside = f"; {_BESIDE}" if any(module.startswith(".") for module in refused) else ""
    return TraceRefused(Outcome.FORBIDDEN_IMPORT, f"imports {named}; {_ADVICE}{beside}", Stage.PARSE, line)


def _guarded_import(candidate: ParsedSource) -> Callable[..., ModuleType]:
    """Return an `__import__` for the candidate's own statements; indirect imports are not checked.

    Modules of torch that are loaded pass: torch imports them on behalf of its caller, as `with torch.device("cuda")`
    does, and the candidate reaches them by their names anyway.
    """

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        asked = "." * level + name
        parts = [f"{asked}.{part}" for part in fromlist or ()] if asked in _PARTLY else []
        for module in parts or [asked]:
            if module in candidate.optional:
                raise ModuleNotFoundError(f"No module named '{module}'", name=module)
            if module in candidate.skipped:
                return guarded(module.partition(".")[0])
            if module in candidate.unused:
                return _StandIn(module, candidate.unused)
            if not _is_allowed(module, candidate.allowed) and not (
                module.startswith("torch.") and module in sys.modules
            ):
                raise _refusal({module: 0})
        if asked == "os":
            return _Environment(candidate.unused)
        if asked.partition(".")[0] == "importlib":
            found = _Importlib(guarded, candidate)
            return getattr(found, asked.partition(".")[2], found) if fromlist else found
        if asked in _PACKAGING:
            return _PACKAGING[asked if fromlist else "packaging"]
        return builtins.__import__(name, globals, locals, fromlist, level)

    return guarded


class _StandIn(ModuleType):
    """Replacement for a module that a candidate may not import, or for a part of one: whoever uses it is refused."""

    def __init__(self, name: str, others: Mapping[str, int]) -> None:
        super().__init__(name)
        self.__dict__["_others"] = others

    def __getattr__(self, name: str) -> "_StandIn":
        if name.startswith("__") and name != "__version__":
            raise AttributeError(name)
        return self

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        others = {module: line for module, line in self.__dict__["_others"].items() if line}
        raise _refusal(others if self.__name__ in others else {self.__name__: 0})

    def _annotate(self, _: object) -> "_StandIn":
        """Return itself, as part of an annotation."""
        return self

    __or__ = __ror__ = __getitem__ = _annotate


for _operation in (
    *("call", "bool", "len", "iter", "next", "contains", "int", "index", "float", "enter", "exit"),
    *("mro_entries", "instancecheck", "reduce_ex", "deepcopy", "copy"),
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "mod"),
    *("floordiv", "rfloordiv", "pow", "rpow", "neg", "and", "rand", "invert", "matmul", "setitem", "delitem", "format"),
):
    setattr(_StandIn, f"__{_operation}__", _StandIn._refuse)


class _Environment(_StandIn):
    """Replacement for `os`: an environment in which nothing is set."""

    environ: MutableMapping[str, str] = {}

    def __init__(self, others: Mapping[str, int]) -> None:
        super().__init__("os", others)

    @staticmethod
    def getenv(key: str, default: str | None = None) -> str | None:
        """Return the default."""
        return default

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"os.{name}", self.__dict__["_others"])


class _Importlib(_StandIn):
    """Replacement for `importlib`: it finds what the candidate may import anyway, and nothing else is installed."""

    PackageNotFoundError = PackageNotFoundError

    def __init__(self, guarded: Callable[..., ModuleType], candidate: ParsedSource) -> None:
        super().__init__("importlib", candidate.unused)
        self.__dict__["metadata"] = self.__dict__["util"] = self

        def import_module(name: str, package: str | None = None) -> ModuleType:
            """Return a module as an import statement does; fail as for a missing one where that is refused."""
            if not _is_allowed(name, candidate.allowed):
                raise ModuleNotFoundError(f"No module named '{name}'", name=name)
            return guarded(name, fromlist=("__name__",))

        def find_spec(name: str, package: str | None = None) -> ModuleSpec | None:
            """Return a spec without a loader of a module that an import statement finds; else None."""
            return ModuleSpec(name, None) if _is_allowed(name, candidate.allowed) else None

        def version(package: str) -> str:
            """Return the version of torch or Triton; other packages are not found."""
            if package not in ("torch", "triton"):
                raise PackageNotFoundError(package)
            return str(builtins.__import__(package).__version__)

        self.__dict__.update(import_module=import_module, find_spec=find_spec, version=version)

    def __getattr__(self, name: str) -> _StandIn:
        if name.startswith("__"):
            raise AttributeError(name)
        return _StandIn(f"importlib.{name}", self.__dict__["_others"])
