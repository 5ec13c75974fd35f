"""The candidate's source: its allowed imports, and its loading."""

import ast
import builtins
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType, ModuleType
from typing import Any

from workers.protocol import Outcome, Stage
from workers.tracer.refusal import SOURCE_NAME, TraceRefused

MODULE_NAME = "candidate"
"""Name of the candidate's module."""

ALLOWED_IMPORTS = (
    *("torch", "triton", "triton.language", "triton.experimental.gluon", "triton.tools.tensor_descriptor"),
    *("math", "typing", "__future__"),
)
"""Modules that a candidate may import; for Triton's languages also submodules, such as `extra.libdevice`."""

_OPEN = ("triton.language", "triton.experimental.gluon")
_ASKED_BY_TORCH = ("torch.utils._device",)
# Modules that torch imports on behalf of its caller, as `with torch.device("cuda")` does.
_ADVICE = (
    "a candidate may import torch, triton, triton.language (and its extra.libdevice), triton.experimental.gluon, "
    "triton.tools.tensor_descriptor, math and typing"
)


def parse(source: str, allowed: Sequence[str] = ALLOWED_IMPORTS) -> CodeType:
    """Compile the source after checking its imports against the list.

    Raises:
        TraceRefused: `syntax_error` or `forbidden_import`, with the line.
    """
    try:
        tree = ast.parse(source, SOURCE_NAME)
        code = compile(tree, SOURCE_NAME, "exec")
    except SyntaxError as error:
        raise TraceRefused(
            Outcome.SYNTAX_ERROR, f"{error.msg}: {(error.text or '').strip()}", Stage.PARSE, error.lineno or 1
        ) from None
    except (ValueError, RecursionError) as error:
        raise TraceRefused(Outcome.SYNTAX_ERROR, str(error), Stage.PARSE, 1) from None
    for module, names, line in _imports(tree):
        _require_allowed(module, names, allowed, line)
    return code


def load(source: str, code: CodeType, allowed: Sequence[str] = ALLOWED_IMPORTS) -> ModuleType:
    """Execute the source as a module in which Triton can read the text of functions.

    Raises:
        BaseException: Any exception of the source, or its refusal.
    """
    module = ModuleType(MODULE_NAME)
    module.__file__ = SOURCE_NAME
    module.__dict__["__builtins__"] = {**vars(builtins), "__import__": _guarded_import(allowed)}
    sys.modules[MODULE_NAME] = module
    linecache.cache[SOURCE_NAME] = (len(source), None, source.splitlines(keepends=True), SOURCE_NAME)
    exec(code, module.__dict__)
    return module


def _imports(tree: ast.Module) -> Iterator[tuple[str, list[str], int]]:
    """Yield each imported module, the names that are taken from it, and the line."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, [], node.lineno) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield ("." * node.level) + (node.module or ""), [alias.name for alias in node.names], node.lineno


def _require_allowed(module: str, names: Sequence[str], allowed: Sequence[str], line: int | None = None) -> None:
    """Require that a module is allowed, or all the names taken from it: `from triton.experimental import gluon`."""
    within = [f"{module}.{name}" for name in names]
    if not _is_allowed(module, allowed) and not (within and all(_is_allowed(name, allowed) for name in within)):
        raise TraceRefused(Outcome.FORBIDDEN_IMPORT, f"imports '{module}'; {_ADVICE}", Stage.PARSE, line)


def _is_allowed(module: str, allowed: Sequence[str]) -> bool:
    below = any(module.startswith(f"{name}.") for name in allowed if name in _OPEN or name not in ALLOWED_IMPORTS)
    return module in allowed or below


def _guarded_import(allowed: Sequence[str]) -> Callable[..., ModuleType]:
    """Return an `__import__` for the candidate's own statements; indirect imports are not checked."""

    def guarded(
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] = (),
        level: int = 0,
    ) -> ModuleType:
        if name not in _ASKED_BY_TORCH:
            _require_allowed("." * level + name, fromlist or (), allowed)
        return builtins.__import__(name, globals, locals, fromlist, level)

    return guarded
