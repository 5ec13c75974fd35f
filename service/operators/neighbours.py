"""Files beside a Python file that it imports. Only files that an import names are read, and nothing of them runs."""

import ast
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from service.errors import InvalidInput
from service.operators.sources import parse

MOST_FILES = 64
"""Maximum number of files that are read; a package of more is a library to install."""
INSTALLED = {*sys.stdlib_module_names, "torch", "triton"}
"""Modules that are never files of somebody's, whatever these are called."""
_ASIDE = ("__main__", "TYPE_CHECKING")


def with_neighbours(path: Path, read: Callable[[Path], str]) -> dict[Path, str]:
    """Return the texts of a file and of those that it imports at its top level, directly or through others.

    Args:
        path: Absolute path of the file, which comes first.
        read: Reads a file.

    Raises:
        InvalidInput: If there are more than `MOST_FILES`.
    """
    texts: dict[Path, str] = {}
    pending = [path]
    while pending:
        file = pending.pop()
        texts[file] = read(file)
        found = dict.fromkeys(_imported(file, texts[file], path.parent))
        pending += [other for other in found if other not in texts and other not in pending]
        if len(texts) + len(pending) > MOST_FILES:
            raise InvalidInput(f"'{path.name}' imports more than {MOST_FILES} files beside it: install them", "path")
    return texts


def _imported(file: Path, text: str, folder: Path) -> Iterator[Path]:
    """Yield the files that imports name: from the file's package if they are relative, else below a folder."""
    try:
        body = parse(text).body
    except (SyntaxError, ValueError):  # Its reader tells the line.
        return
    for node in _that_run(body):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _file_of(folder, alias.name)
        elif isinstance(node, ast.ImportFrom) and node.level <= len(file.parents):
            start = file.parents[node.level - 1] if node.level else folder
            for alias in node.names:
                inner = _file_of(start, f"{node.module}.{alias.name}" if node.module else alias.name, node.level)
                yield from inner or _file_of(start, node.module or "", node.level)


def _that_run(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements that an import runs, without those for scripts and for type checkers."""
    for node in body:
        yield node
        if isinstance(node, ast.If) and not any(word in ast.unparse(node.test) for word in _ASIDE):
            yield from _that_run([*node.body, *node.orelse])
        elif isinstance(node, ast.Try):
            yield from _that_run([*node.body, *(each for handler in node.handlers for each in handler.body)])


def _file_of(folder: Path, name: str, level: int = 0) -> list[Path]:
    """Return the file of a module's dotted name, if there is one below a folder."""
    first, *_ = parts = name.split(".")
    if not name or (not level and first in INSTALLED):
        return []
    place = folder.joinpath(*parts)
    return [file for file in (place / "__init__.py", place.with_name(f"{place.name}.py")) if file.is_file()][:1]
