"""`reef import`: operators from published problem sets."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connection import AsJson
from service.cli.console import emit_json, err, out
from service.errors import InvalidInput
from service.fleet.kernelbench import KernelbenchImporter, searchable
from service.operators.kernelbench import files_of_operator, is_problem, name_of_problem
from workers.protocol import Operator
from workers.targets import TARGETS

LONGEST_FILE_BYTES = 2**20
"""Maximum size of a file; problem files take a few kilobytes."""

NO_PROBLEM = (
    "defines no Model and get_inputs, as a KernelBench file does; other operators are folders with operator.toml: "
    "docs/reference/operator-spec.md"
)
"""Fault of a Python file that is given in place of an operator."""

imports = typer.Typer(help="Import operators (KernelBench).", no_args_is_help=True)


@imports.callback()
def group() -> None:
    """Import operators (KernelBench)."""


@imports.command("kernelbench")
def kernelbench(
    path: Annotated[Path, typer.Argument(help="A problem file, or a folder with problem files such as level1.")],
    write: Annotated[Path, typer.Option("--out", help="Parent folder of the operators' folders.")] = Path(),
    seeds: Annotated[bool, typer.Option(help="Have TorchInductor write a seed kernel.")] = True,
    target: Annotated[str, typer.Option(help="Compile target of the seed kernel.")] = "sm_90",
    as_json: AsJson = False,
) -> None:
    """Convert KernelBench problem files to operators, each in its own folder."""
    if target not in TARGETS:
        raise InvalidInput(f"there is no target '{target}'; known: {', '.join(TARGETS)}", "target")
    problems = problem_files(path)
    rows = asyncio.run(_all(problems, write, target, seeds=seeds))
    if as_json:
        emit_json(rows)
    if not any(row["operator"] for row in rows):
        raise InvalidInput(f"no problem could be imported; the first: {rows[0]['reason']}", "path")


def problem_files(path: Path, field: str = "path") -> list[Path]:
    """List the problem files at a path, in the order of their numbers.

    Args:
        path: A file, or a folder.
        field: Option or argument that gave the path.

    Raises:
        InvalidInput: If there are none.
    """
    files = sorted(path.glob("*.py"), key=_place) if path.is_dir() else [path]
    problems = [file for file in files if file.is_file() and is_problem(read_problem(file))]
    if not problems:
        what = NO_PROBLEM if path.is_file() else "has no KernelBench problem files"
        raise InvalidInput(f"'{path}' {what if path.exists() else 'does not exist'}", field)
    return problems


def read_problem(path: Path) -> str:
    """Read the text of a problem file.

    Raises:
        InvalidInput: If it cannot be read.
    """
    try:
        if path.stat().st_size > LONGEST_FILE_BYTES:
            raise InvalidInput(f"'{path}' is longer than {LONGEST_FILE_BYTES} bytes", "path")
        return path.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise InvalidInput(f"'{path}' cannot be read: {error}", "path") from None


def operator_of_file(path: Path, device: str, field: str = "path") -> Operator:
    """Convert one problem file to an operator with a seed kernel for a device.

    Args:
        path: The file.
        device: Device that the kernel is for.
        field: Option or argument that gave the path.

    Raises:
        InvalidInput: If it is not a problem file, cannot be judged, or TorchInductor writes no kernel for it.
        Unavailable: If one of our processes failed.
    """
    problem = problem_files(path, field)[0]
    return asyncio.run(searchable(name_of_problem(problem.resolve()), read_problem(problem), device))


def _place(path: Path) -> tuple[int, str]:
    number = path.stem.partition("_")[0]
    return (int(number) if number.isdecimal() else 0), path.name


async def _all(problems: list[Path], folder: Path, target: str, *, seeds: bool) -> list[dict[str, object]]:
    async with KernelbenchImporter(target=target) as importer:
        return [await _one(importer, problem, folder, seeds=seeds) for problem in problems]


async def _one(importer: KernelbenchImporter, problem: Path, folder: Path, *, seeds: bool) -> dict[str, object]:
    """Import one problem; print and return the result."""
    name = name_of_problem(problem.resolve())
    try:
        imported = await importer.operator(name, read_problem(problem), seeded=seeds)
    except InvalidInput as error:
        err.print(f"{problem.name}: {error.detail}", highlight=False, markup=False)
        return {"problem": str(problem), "operator": None, "folder": None, "seed": False, "reason": error.detail}
    home = folder / name
    home.mkdir(parents=True, exist_ok=True)
    for file, text in files_of_operator(imported.operator, imported.notes).items():
        (home / file).write_text(text, encoding="utf-8")
    out.print(str(home), highlight=False, markup=False)
    if imported.no_seed and seeds:
        err.print(f"{name} has no seed kernel: {imported.no_seed}", highlight=False, markup=False)
    seeded = bool(imported.operator.seeds)
    return {
        "problem": str(problem),
        "operator": name,
        "folder": str(home),
        "seed": seeded,
        "reason": imported.no_seed,
    }
