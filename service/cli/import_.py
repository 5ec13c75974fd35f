"""`reef import`: operators from published problem sets."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connection import AsJson
from service.cli.console import emit_json, err, out
from service.cli.new import read_problem, write_folder
from service.errors import InvalidInput
from service.fleet.kernelbench import KernelbenchImporter, SourceFile
from service.operators.kernelbench import is_problem, name_of_problem
from workers.targets import TARGETS

NO_PROBLEM = "defines no Model and get_inputs, as a KernelBench file does; for other files: reef new FILE:NAME"
"""Fault of a Python file that is no problem."""

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
    strict: Annotated[bool, typer.Option("--strict", help="Allow no TF32, which PyTorch uses by default.")] = False,
    as_json: AsJson = False,
) -> None:
    """Convert KernelBench problem files to operators, each in its own folder."""
    if target not in TARGETS:
        raise InvalidInput(f"there is no target '{target}'; known: {', '.join(TARGETS)}", "target")
    problems = problem_files(path)
    rows = asyncio.run(_all(problems, write, target, seeds=seeds, strict=strict))
    if as_json:
        emit_json(rows)
    if not any(row["operator"] for row in rows):
        raise InvalidInput(f"no problem could be imported; the first: {rows[0]['reason']}", "path")


def problem_files(path: Path) -> list[Path]:
    """List the problem files at a path, in the order of their numbers.

    Args:
        path: A file, or a folder.

    Raises:
        InvalidInput: If there are none.
    """
    files = sorted(path.glob("*.py"), key=_place) if path.is_dir() else [path]
    problems = [file for file in files if file.is_file() and is_problem(read_problem(file))]
    if not problems:
        what = NO_PROBLEM if path.is_file() else "has no KernelBench problem files"
        raise InvalidInput(f"'{path}' {what if path.exists() else 'does not exist'}", "path")
    return problems


def _place(path: Path) -> tuple[int, str]:
    number = path.stem.partition("_")[0]
    return (int(number) if number.isdecimal() else 0), path.name


async def _all(
    problems: list[Path], folder: Path, target: str, *, seeds: bool, strict: bool
) -> list[dict[str, object]]:
    async with KernelbenchImporter(target=target) as importer:
        return [await _one(importer, problem, folder, seeds=seeds, strict=strict) for problem in problems]


async def _one(
    importer: KernelbenchImporter, problem: Path, folder: Path, *, seeds: bool, strict: bool
) -> dict[str, object]:
    """Import one problem; print and return the result."""
    name = name_of_problem(problem.resolve())
    try:
        file = SourceFile(read_problem(problem), name, strict=strict)
        imported = await importer.operator(file, seeded=seeds)
    except InvalidInput as error:
        err.print(f"{problem.name}: {error.detail}", highlight=False, markup=False)
        return {"problem": str(problem), "operator": None, "folder": None, "seed": False, "reason": error.detail}
    home = folder / name
    write_folder(home, imported)
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
