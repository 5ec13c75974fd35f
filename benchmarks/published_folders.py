"""Folders of published kernels, as `benchmarks.published` reads them, built from git mirrors.

python -m benchmarks.published_folders MIRRORS --out FOLDER    # a folder per folder of `published_kernels`

MIRRORS holds a git repository per repository of the lot, `<owner>+<name>/repo` as for `published_lot`, or a clone
`<owner>/<name>`. Nothing that others published is part of this repository, so a kernel's folder here is ours alone:

    published_kernels/NNN_name/       NNN is its line in `published_lot.tsv`
        kernel.toml                   repository, commit, path, name of the operator, further files, and the adapter
        operator/                     operator.toml and reference.py

The adapter is a list of `edits`. Each deletes `delete` lines behind line `after` of the fetched file, and puts `text`
there; without `after` the text goes to the end. Lines are counted in the file as fetched, the first is 1. `file` names
one of the further `files`, which that repository has, too, and which the kernel imports.
"""

import argparse
import ast
import json
import shutil
import subprocess
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

KERNELS = Path(__file__).parent / "published_kernels"

Edit = dict[str, Any]


def edited(text: str, edits: list[Edit]) -> str:
    """Apply an adapter to a fetched file."""
    lines = text.removesuffix("\n").split("\n")
    for edit in sorted(edits, key=lambda edit: -edit.get("after", len(lines))):
        after, deleted = edit.get("after", len(lines)), edit.get("delete", 0)
        if not 0 <= after <= after + deleted <= len(lines):
            raise ValueError(f"lines {after + 1} to {after + deleted} are not in a file of {len(lines)} lines")
        lines[after : after + deleted] = edit.get("text", "").splitlines()
    return "\n".join(lines) + "\n"


def size(edits: list[Edit]) -> int:
    """Count the lines of an adapter outside jit functions: a replaced line once, empty lines never."""
    return sum(max(edit.get("delete", 0), _counted(edit.get("text", ""))) for edit in edits)


def _counted(text: str) -> int:
    inside: set[int] = set()
    with suppress(SyntaxError):  # Lines of the inside of a function are no module by themselves, and all count.
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef) and any("jit" in ast.unparse(item) for item in node.decorator_list):
                inside |= {*range(node.decorator_list[0].lineno, (node.end_lineno or node.lineno) + 1)}
    return sum(bool(line.strip()) for at, line in enumerate(text.splitlines(), 1) if at not in inside)


def build(kernel: Path, mirrors: Path, out: Path) -> None:
    """Write a kernel's folder: the fetched files with their adapter, `kernel.json`, and a copy of `operator`."""
    about = tomllib.loads((kernel / "kernel.toml").read_text())
    edits = about.get("edits", [])
    paths = [about["path"], *about.get("files", [])]
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(kernel / "operator", out / "operator")
    for path in paths:
        found = out / "candidate" / path
        found.parent.mkdir(parents=True, exist_ok=True)
        text = fetched(mirrors, about["repository"], about["commit"], path)
        found.write_text(edited(text, [edit for edit in edits if edit.get("file", about["path"]) == path]))
    row = {name: about[name] for name in ("repository", "commit", "path", "operator")}
    (out / "kernel.json").write_text(json.dumps(row | {"main": about["path"], "edits": size(edits)}, indent=1))


def fetched(mirrors: Path, repository: str, commit: str, path: str) -> str:
    """Return a file of a repository at a commit."""
    places = (mirrors / repository.replace("/", "+") / "repo", mirrors / repository)
    place = next((place for place in places if place.is_dir()), None)
    if place is None:
        raise FileNotFoundError(f"no repository {repository} in {mirrors}")
    command = ["git", "-C", str(place), "show", f"{commit}:{path}"]
    return subprocess.run(command, capture_output=True, encoding="utf-8", check=True).stdout


def main() -> None:
    """Build the folders."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("mirrors", type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="numbers of kernels, separated by commas")
    options = parser.parse_args()
    only = set(filter(None, options.only.split(",")))
    kernels = [path for path in sorted(KERNELS.iterdir()) if not only or path.name.partition("_")[0] in only]
    for kernel in kernels:
        build(kernel, options.mirrors, options.out / kernel.name)
    print(f"{len(kernels)} folders in {options.out}")


if __name__ == "__main__":
    main()
