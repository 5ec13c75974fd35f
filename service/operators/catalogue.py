"""Operator specs from files: the catalogue of Kernelreef, and a user's own.

A spec is a TOML file that names its reference and seed kernels as files of its own folder, or a JSON file with the
sources inline.
"""

import json
import tomllib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from kernelreef.validation import nearest
from service.errors import InvalidInput
from service.operators.specs import parse_operator
from workers.protocol import Operator

__all__ = ["catalogue_names", "load_catalogue", "load_operator", "parse_operator"]

SPEC_FILE = "operator.toml"
"""File name of the spec in an operator's folder."""

MAX_FILE_BYTES = 2 * 2**20
"""Maximum size of a file: a spec with the most and longest sources that the protocol allows."""


def load_catalogue() -> dict[str, Operator]:
    """Load the operators of the catalogue, by name."""
    operators = [_load(folder / SPEC_FILE) for folder in _folders().values()]
    return {operator.name: operator for operator in operators}


def catalogue_names() -> list[str]:
    """Return the names of the catalogue's operators."""
    return list(_folders())


def load_operator(spec: str | Path) -> Operator:
    """Load an operator by a name of the catalogue, or by the path of a TOML file, a JSON file or a folder with a spec.

    A name of the catalogue wins over a folder of that name; `./name` means the folder.

    Raises:
        InvalidInput: If there is no such operator, or its spec is invalid; names the field and a valid value.
    """
    folders = _folders()
    if isinstance(spec, str) and spec in folders:
        return _load(folders[spec] / SPEC_FILE)
    path = Path(spec)
    if _exists(path):
        return _load(path / SPEC_FILE if path.is_dir() else path)
    raise InvalidInput(
        f"'{spec}' is neither a file nor in the catalogue ({', '.join(folders)}){nearest(spec, folders)}",
        "spec",
    )


def _folders() -> dict[str, Path]:
    """Return the catalogue's folders by operator name, sorted."""
    root = Path(str(resources.files("operators")))
    return {spec.parent.name: spec.parent for spec in sorted(root.glob(f"*/{SPEC_FILE}"))}


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except OSError:
        return False


def _load(path: Path) -> Operator:
    text = _read(path, f"'{path}'", "spec")
    try:
        if path.suffix == ".toml":
            return parse_operator(_inlined(tomllib.loads(text), path.parent))
        if path.suffix == ".json":
            return parse_operator(_mapping(json.loads(text)))
    except (tomllib.TOMLDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InvalidInput(f"'{path}' is not valid {path.suffix[1:].upper()}: {error}", "spec") from None
    raise InvalidInput(
        f"'{path}' is not a spec; give {SPEC_FILE}, its folder, or a .json file with the sources inline", "spec"
    )


def _mapping(document: object) -> Mapping[str, Any]:
    if not isinstance(document, dict):
        raise InvalidInput("a spec is one JSON object, with keys such as name, entry and inputs", "spec")
    return document


def _inlined(document: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Replace the files that a document names by their text. Values of a wrong type stay for the parser to refuse."""
    inlined = dict(document)
    if isinstance(document.get("reference"), str):
        inlined["reference"] = _source(folder, document["reference"], "reference")
    if isinstance(seeds := document.get("seeds"), list):
        inlined["seeds"] = [
            _source(folder, seed, f"seeds[{index}]") if isinstance(seed, str) else seed
            for index, seed in enumerate(seeds)
        ]
    return inlined


def _source(folder: Path, name: str, field: str) -> str:
    try:
        home = folder.resolve()
        path = (home / name).resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise InvalidInput(f"{field}: '{name}' is not a path: {error}", field) from None
    if not path.is_relative_to(home):
        raise InvalidInput(f"{field}: '{name}' is outside the spec's folder; move the file into it", field)
    return _read(path, f"{field}: '{name}' in {home}", field)


def _read(path: Path, subject: str, field: str) -> str:
    """Read a text file.

    Raises:
        InvalidInput: If that fails; the message starts with `subject`.
    """
    try:
        if not path.is_file():
            raise InvalidInput(f"{subject} is not a file", field)
        if path.stat().st_size > MAX_FILE_BYTES:
            raise InvalidInput(f"{subject} is longer than {MAX_FILE_BYTES} bytes", field)
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInput(f"{subject} is not UTF-8 text", field) from None
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{subject} cannot be read: {error}", field) from None
