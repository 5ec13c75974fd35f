"""A candidate in several files, joined to the one text that is judged, edited and stored.

Files that the main one imports stand before it, and their names become its own. If several files bind a name to
different things, those of the imported files are renamed. Nothing of them runs here.
"""

import ast
import builtins
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path, PurePath

from service.errors import InvalidInput
from service.operators.neighbours import INSTALLED, with_neighbours
from service.operators.renaming import bound, rename_global, within_scopes
from service.operators.sources import dotted, parse
from workers.protocol import MAX_SOURCE_BYTES
from workers.protocol.kernelbench import NEW

FIELD = "CANDIDATE"
"""Name of the argument, in errors."""
_HERE = PurePath()


@dataclass(frozen=True)
class JoinedFiles:
    """A candidate's text, and for every line of it the file and line that it comes from."""

    text: str
    origins: tuple[tuple[str, int], ...]

    @property
    def is_joined(self) -> bool:
        """True if the text is that of several files."""
        return len({file for file, _ in self.origins}) > 1

    def place(self, line: int) -> str:
        """Describe a line of the text: `line 3`, with its file if there are several."""
        if not self.is_joined or not 0 < line <= len(self.origins):
            return f"line {line}"
        file, original = self.origins[line - 1]
        return f"{file}, line {original}"


def read_candidate(paths: Sequence[Path], entry: str) -> JoinedFiles:
    """Read a candidate from a file, a folder, or a main file and files that it imports.

    Args:
        paths: One file, which is joined with those beside it that it imports; a folder; or several files, the main one
            first.
        entry: The function that the operator calls, by which the main file of a folder is known.

    Raises:
        InvalidInput: If a file cannot be read, or the files cannot be joined; says why.
    """
    if len(paths) == 1 and not paths[0].is_dir():
        return read_file(paths[0])
    texts = {PurePath(path.absolute()): _read(path) for path in _files(paths)}
    return _joined(texts, _main(texts, entry) if len(paths) == 1 else next(iter(texts)))


def read_file(path: Path, own: Collection[str] = ()) -> JoinedFiles:
    """Read a file, joined with the files beside it that it imports at its top level.

    Args:
        path: The file.
        own: Names that only this file may bind, such as that of its examples: other files' are renamed.

    Raises:
        InvalidInput: If a file cannot be read, or the files cannot be joined; says why.
    """
    main = path.absolute()
    texts = {PurePath(file): text for file, text in with_neighbours(main, _read).items()}
    if len(texts) > 1:
        return _joined(texts, PurePath(main), own)
    (text,) = texts.values()
    return JoinedFiles(text, tuple((path.name, line + 1) for line in range(text.count("\n") + 1)))


def _joined(texts: Mapping[PurePath, str], main: PurePath, own: Collection[str] = ()) -> JoinedFiles:
    joined = join_files(texts, main, PurePath(*_common([path.parent.parts for path in texts])), own)
    if len(joined.text.encode()) > MAX_SOURCE_BYTES:
        raise InvalidInput(f"the files have more than {MAX_SOURCE_BYTES} bytes together, the maximum", FIELD)
    return joined


def join_files(
    texts: Mapping[PurePath, str], main: PurePath, root: PurePath = _HERE, own: Collection[str] = ()
) -> JoinedFiles:
    """Join a main file with the files that it imports, directly or through others.

    `from package.utils import f` finds `utils.py` in a folder `package`, wherever that lies.

    Args:
        texts: Texts by path.
        main: Path of the main file.
        root: Folder that paths are named from, and in which a name without dots is a file's.
        own: Names that only the main file may bind; other files' are renamed unless it imports them.

    Raises:
        InvalidInput: If files bind a name differently and it cannot be renamed, or import each other.
    """
    modules = _Modules(root, {})
    for path, text in texts.items():
        modules.files[_dotted_name(path)] = _Module(path.relative_to(root), path.parent, text, _tree(path, text))
    ordered: list[_Module] = []
    _visit(modules.files[_dotted_name(main)], modules, ordered, [])
    _keep_apart(ordered, modules, own)
    futures = {ast.unparse(node) for module in ordered for node in module.tree.body if _is_future(node)}
    lines = sorted(futures)
    origins = [(str(main.relative_to(root)), 1)] * len(lines)
    for module in ordered:
        for number, line in enumerate(module.joined(modules), 1):
            lines.append(line)
            origins.append((str(module.path), number))
    return JoinedFiles("\n".join(lines) + "\n", tuple(origins))


def _files(paths: Sequence[Path]) -> Sequence[Path]:
    """Return all files that are meant."""
    if len(paths) > 1:
        return paths
    found = sorted(path for path in paths[0].rglob("*.py") if not path.name.startswith("."))
    if not found:
        raise InvalidInput(f"{paths[0]} has no Python file", FIELD)
    return found


def _common(parts: Sequence[tuple[str, ...]]) -> Iterator[str]:
    for names in zip(*parts, strict=False):
        if len(set(names)) > 1:
            return
        yield names[0]


def _main(texts: Mapping[PurePath, str], entry: str) -> PurePath:
    found = [path for path, text in texts.items() if {entry, NEW}.intersection(_bindings(_tree(path, text)))]
    if len(found) != 1:
        named = ", ".join(path.name for path in found) or "none"
        raise InvalidInput(f"one file of the folder must define '{entry}'; it is defined in: {named}", FIELD)
    return found[0]


def _dotted_name(path: PurePath) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _tree(path: PurePath, text: str) -> ast.Module:
    try:
        return parse(text)
    except SyntaxError as error:
        raise InvalidInput(f"{path}, line {error.lineno}: {error.msg}", FIELD) from error


@dataclass
class _Module:
    """One file.

    Attributes:
        path: Its path, as it is named to people.
        folder: Its folder.
        text: Its text.
        tree: Its syntax tree.
        private: New names of its globals whose names other files bind, too.
    """

    path: PurePath
    folder: PurePath
    text: str
    tree: ast.Module
    private: dict[str, str] = field(default_factory=dict)
    _renamed: dict[int, list[tuple[int, int, str]]] = field(default_factory=dict)
    _meanings: "dict[str, _Meaning] | None" = None

    def imports(self, modules: "_Modules") -> Iterator["_Import"]:
        """Yield each import of another file."""
        inner = {id(node) for node in within_scopes(self.tree)}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.ImportFrom):
                for alias in node.names:
                    whole = self._found(node, alias.name, modules)
                    if found := whole or self._found(node, "", modules):
                        yield _Import(node, found, alias, whole is not None, id(node) in inner)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    if found := modules.find(alias.name):
                        yield _Import(node, found, alias, True, id(node) in inner)

    def meanings(self, modules: "_Modules") -> dict[str, "_Meaning"]:
        """Return the meaning of each name that the file binds at its top level, imports of other files' names included.

        A file that is imported as a whole has no meaning, because its name goes.
        """
        if self._meanings is not None:
            return self._meanings
        imports = list(self.imports(modules))
        joined = {each.alias for each in imports}
        found = dict[str, _Meaning]()
        for name, statements in _bindings(self.tree).items():
            text = "\n".join(sorted(filter(None, {_said(each, name, joined) for each in statements})))
            if text and name != "*":
                found[name] = _Meaning(self, name, text)
        for each in imports:
            theirs = {} if each.is_inner or each.is_whole else each.module.meanings(modules)
            for local, name in each.names(theirs):
                if name in theirs and (each.alias.name != "*" or local not in found):
                    found[local] = theirs[name]
        self._meanings = found
        return found

    def public(self, name: str, modules: "_Modules") -> str:
        """Return the name under which others reach what this file calls `name`."""
        meaning = self.meanings(modules).get(name)
        return meaning.owner.private.get(meaning.name, meaning.name) if meaning else name

    def qualified(self, modules: "_Modules") -> Iterator[tuple[ast.Attribute, str, "_Module"]]:
        """Yield the places that reach a name of a file by the file's name."""
        for each in self.imports(modules):
            prefix, known = each.alias.asname or each.alias.name, _bindings(each.module.tree)
            for node in ast.walk(self.tree) if each.is_whole else ():
                if isinstance(node, ast.Attribute) and dotted(node.value) == prefix and node.attr in known:
                    yield node, prefix, each.module

    def rename(self, name: str, new: str, modules: "_Modules") -> bool:
        """Rename a global of this file; returns False if that is not safe."""
        left = {each.statement for each in self.imports(modules)}
        found = rename_global(self.tree, self.text.split("\n"), name, new, left)
        for line, start, end, text in found or ():
            self._renamed.setdefault(line, []).append((start, end, text))
        if found is not None:
            self.private[name] = new
        return found is not None

    def joined(self, modules: "_Modules") -> list[str]:
        """Return the file's lines, without its imports of other files."""
        lines = self.text.split("\n")
        replaced: dict[ast.stmt, list[str]] = {}
        imports = list(self.imports(modules))
        joined = {each.alias for each in imports}
        for each in imports:
            statements = replaced.setdefault(each.statement, self._others(each.statement, joined))
            statements.extend(self._binding(each, modules))
        self._unqualify(modules)
        for node in self.tree.body:
            if _is_future(node):
                replaced[node] = []
        for statement, made in replaced.items():
            self._replace(lines, statement, made)
        for number, changes in self._renamed.items():
            line = lines[number - 1].encode()
            for start, end, name in sorted(changes, reverse=True):
                line = line[:start] + name.encode() + line[end:]
            lines[number - 1] = line.decode()
        return lines[:-1] if lines[-1] == "" else lines

    def _found(self, node: ast.ImportFrom, inner: str, modules: "_Modules") -> "_Module | None":
        """Return the file that an import starts from, or a file `inner` below it."""
        name = ".".join(filter(None, (node.module, inner)))
        if not node.level:
            return modules.find(name)
        package = self.folder.parts
        return modules.files.get(".".join((*package[: len(package) - node.level + 1], *filter(None, [name]))))

    def _binding(self, found: "_Import", modules: "_Modules") -> list[str]:
        """Return the statements that stand for an import of another file."""
        made, theirs, mine = list[str](), found.module.meanings(modules), self.meanings(modules)
        for local, name in found.names(theirs):
            here = local if found.is_inner else self.private.get(local, local)
            there = found.module.public(name, modules)
            is_hidden = found.alias.name == "*" and mine.get(local) != theirs[name]
            if here != there and not is_hidden:
                made.append(f"{here} = {there}")
        return made

    def _others(self, statement: ast.Import | ast.ImportFrom, joined: Collection[ast.alias]) -> list[str]:
        """Return the part of an import that is not of files: `import torch` of `import torch, utils`."""
        left = [each for each in statement.names if each not in joined]
        names = [ast.alias(each.name, self.private.get(bound(each), each.asname)) for each in left]
        if isinstance(statement, ast.Import):
            made: ast.stmt = ast.Import(names)
        else:
            made = ast.ImportFrom(statement.module, names, statement.level)
        return [ast.unparse(made)] if left else []

    def _unqualify(self, modules: "_Modules") -> None:
        """Reach the names of imported files without the files' names."""
        local = _stored(self.tree)
        for node, prefix, module in self.qualified(modules):
            name = module.public(node.attr, modules)
            if name in local or node.end_lineno != node.lineno:
                raise InvalidInput(
                    f"{self.path}, line {node.lineno}: '{prefix}.{node.attr}' cannot be joined, because the file "
                    f"binds '{node.attr}' too: rename one of them",
                    FIELD,
                )
            self._renamed.setdefault(node.lineno, []).append((node.col_offset, node.end_col_offset or 0, name))

    def _replace(self, lines: list[str], statement: ast.stmt, made: Sequence[str]) -> None:
        first, last = statement.lineno - 1, (statement.end_lineno or statement.lineno) - 1
        indent = lines[first][: statement.col_offset]
        if indent.strip() or lines[last].encode()[statement.end_col_offset or 0 :].strip()[:1] not in (b"", b"#"):
            raise InvalidInput(f"{self.path}, line {statement.lineno}: an import needs a line of its own", FIELD)
        names = {alias.asname or alias.name for alias in getattr(statement, "names", ())}
        text = "; ".join(made) or ("pass" if indent else "")
        lines[first] = f"{indent}{text}{'  ' if text else ''}# {', '.join(sorted(names))}: above"
        lines[first + 1 : last + 1] = [""] * (last - first)


@dataclass(frozen=True)
class _Modules:
    """All files.

    Attributes:
        root: Folder in which names without dots are files.
        files: Files by the dotted names of their paths.
    """

    root: PurePath
    files: dict[str, _Module]

    def find(self, name: str) -> _Module | None:
        """Return the one file whose path ends with a dotted name; None if it is none or several."""
        if "." not in name:
            return None if name in INSTALLED else self.files.get(_dotted_name(self.root / f"{name}.py"))
        found = [file for known, file in self.files.items() if f".{known}".endswith(f".{name}")]
        return found[0] if len(found) == 1 else None


@dataclass(frozen=True)
class _Import:
    """An import of another file: of the file itself, or of names of it; inner ones are in a function or class."""

    statement: ast.Import | ast.ImportFrom
    module: _Module
    alias: ast.alias
    is_whole: bool
    is_inner: bool

    def names(self, theirs: Collection[str]) -> list[tuple[str, str]]:
        """Return the names that the import binds, with the other file's names for them."""
        if self.is_whole:
            return []
        if self.alias.name == "*":
            return [(name, name) for name in theirs if not name.startswith("_")]
        return [(self.alias.asname or self.alias.name, self.alias.name)]


@dataclass(frozen=True)
class _Meaning:
    """The file that defines a name, its name there, and what binds it."""

    owner: _Module = field(compare=False)
    name: str = field(compare=False)
    text: str


def _visit(module: _Module, modules: _Modules, ordered: list[_Module], open_: list[_Module]) -> None:
    if any(module is each for each in ordered):
        return
    if any(module is each for each in open_):
        raise InvalidInput(f"{module.path} and {open_[-1].path} import each other", FIELD)
    for each in module.imports(modules):
        if each.module is not module:
            _visit(each.module, modules, ordered, [*open_, module])
    ordered.append(module)


def _is_future(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.ImportFrom) and statement.module == "__future__"


def _keep_apart(ordered: Sequence[_Module], modules: _Modules, own: Collection[str]) -> None:
    """Rename globals of imported files that other files mean something else by, and those that hide a builtin.

    The main file, the last one, keeps its names.
    """
    *imported, main = ordered
    meanings = {module.path: module.meanings(modules) for module in ordered}
    taken = set().union(*(_stored(module.tree) | _read_names(module.tree) for module in ordered))
    apart = _different(list(meanings.values())) | ({*own} - {*meanings[main.path]})
    for module in imported:
        for name in meanings[module.path]:
            if name in apart or (hasattr(builtins, name) and not name.startswith("__")):
                _rename(module, name, taken, modules, must=True)
    for name in filter(partial(hasattr, builtins), meanings[main.path]):
        if any(name in _read_names(module.tree) - {*meanings[module.path]} for module in imported):
            raise InvalidInput(f"{main.path} binds '{name}' to something else: rename it, to join the files", FIELD)
    for module in ordered:
        for node, _, other in module.qualified(modules):
            found = other.meanings(modules).get(node.attr)
            if found and node.attr in _stored(module.tree) and found.name not in found.owner.private:
                _rename(found.owner, found.name, taken, modules, must=False)


def _different(meanings: Sequence[Mapping[str, _Meaning]]) -> set[str]:
    """Return the names that have several meanings, or whose equal definitions read such a name."""
    texts: dict[str, list[str]] = {}
    for each in meanings:
        for name, meaning in each.items():
            if not name.startswith("__"):
                texts.setdefault(name, []).append(meaning.text)
    found = {name for name, said in texts.items() if len(set(said)) > 1}
    while more := {
        name
        for name, said in texts.items()
        if name not in found and len(said) > 1 and found.intersection(re.findall(r"\w+", said[0]))
    }:
        found |= more
    return found


def _rename(module: _Module, name: str, taken: set[str], modules: _Modules, must: bool) -> None:
    """Give a file's global a name that nothing has."""
    file = re.sub(r"\W", "_", module.path.stem if module.path.stem != "__init__" else module.path.parent.name)
    new = f"{file}_{name}" if file[:1].isalpha() else f"_{file}_{name}"
    while new in taken:
        new += "_"
    taken.add(new)
    if not module.rename(name, new, modules) and must:
        raise InvalidInput(
            f"{module.path} and another file bind '{name}' to something else: rename it, to join the files", FIELD
        )


def _said(statement: ast.stmt, name: str, joined: Collection[ast.alias]) -> str:
    """Return what binds a name; of an import, also one within `try` or `if`, only its own part.

    Imports of files that are joined bind nothing.
    """
    for node in ast.walk(statement):
        if isinstance(node, ast.Import | ast.ImportFrom):
            origin = node.module if isinstance(node, ast.ImportFrom) else ""
            for alias in node.names:
                if bound(alias) == name:  # `import torch.nn` binds `torch`, too.
                    if alias in joined:
                        return ""
                    whole = alias.name if origin or alias.asname else name
                    return ".".join(filter(None, (origin, whole)))  # `import a.b as c` is `from a import b as c`.
    return ast.unparse(statement)


def _bindings(tree: ast.Module) -> dict[str, list[ast.stmt]]:
    """Return the names that a module binds, with the statements of its top level that do so."""
    found: dict[str, list[ast.stmt]] = {}
    for statement in tree.body:
        for name in _names(statement):
            found.setdefault(name, []).append(statement)
    return found


def _names(statement: ast.AST) -> set[str]:
    match statement:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return {statement.name}
        case ast.Import() | ast.ImportFrom():
            return {bound(alias) for alias in statement.names}
        case ast.Name(ctx=ast.Store()):
            return {statement.id}
        case ast.Lambda() | ast.comprehension():
            return set()
    return set().union(*map(_names, ast.iter_child_nodes(statement)))


def _stored(tree: ast.Module) -> set[str]:
    """Return all names that a file binds anywhere, parameters included."""
    found = set(_bindings(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, ast.arg):
            found.add(node.arg)
    return found


def _read_names(tree: ast.Module) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _read(path: Path) -> str:
    try:
        source = path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path}: {error.strerror}", FIELD) from error
    if len(source) > MAX_SOURCE_BYTES:
        raise InvalidInput(f"{path} has {len(source)} bytes; the maximum is {MAX_SOURCE_BYTES}", FIELD)
    try:
        return source.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}", FIELD) from error
