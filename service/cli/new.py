"""`reef new`: an operator's folder from a Python file, and the same in one step for other commands."""

import asyncio
import re
import sys
from pathlib import Path
from time import monotonic
from types import TracebackType
from typing import Annotated, Self

import typer

from service.cli.connection import AsJson
from service.cli.console import emit_json, err, out
from service.errors import Conflict, InvalidInput
from service.fleet.devices import DEVICES, read_device
from service.fleet.kernelbench import Ask, ImportedOperator, KernelbenchImporter, SourceFile, require_seed, with_seeds
from service.operators.joined_files import read_file
from service.operators.kernelbench import files_of_operator, is_problem, name_of_problem
from workers.protocol import Input, Operator, Scalar
from workers.protocol.kernelbench import EXAMPLES, ProblemInspection

LONGEST_FILE_BYTES = 2**20
"""Maximum size of a file; problem files take a few kilobytes."""

SPEC = re.compile(r"(?P<path>.+\.py)(?::(?P<target>[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*))?", re.ASCII)
"""Pattern of a Python file, with the name of a function, module or method in it, such as `Model.encode`."""
OWN_NAMES = (EXAMPLES, "Model", "get_inputs", "get_init_inputs")
"""Names by which a file says what it is called with; those of files that it imports say it of others."""
ALL, NONE = "all", "none"
"""Answers to the question for the sizes that vary."""

Vary = Annotated[
    str | None,
    typer.Option(help="Sizes of a Python file that vary: names, comma-separated, or none.", show_default=False),
]


def new(
    file: Annotated[str, typer.Argument(help="A Python file, or FILE:NAME for a function or module in it.")],
    write: Annotated[Path, typer.Option("--out", help="Parent folder of the operator's folder.")] = Path(),
    device: Annotated[str, typer.Option(help="Device that the seed kernel is for.")] = "model:sm_90",
    vary: Vary = None,
    as_json: AsJson = False,
) -> None:
    """Make an operator's folder from a Python function, an nn.Module or a KernelBench problem, to edit it."""
    source = source_file(file, vary)
    if source is None:
        raise InvalidInput(f"'{file}' is no Python file; give FILE.py or FILE.py:NAME", "file")
    imported = asyncio.run(_imported(source, device))
    home = write / imported.operator.name
    if home.exists():
        raise Conflict(f"'{home}' exists; remove it, or choose another parent folder", "--out")
    write_folder(home, imported)
    if as_json:
        seeds = len(imported.operator.seeds)
        emit_json({"operator": imported.operator.name, "folder": str(home), "seeds": seeds, "reason": imported.no_seed})
        return
    out.print(str(home), highlight=False, markup=False)
    if imported.no_seed:
        err.print(f"it has no seed kernel: {imported.no_seed}", highlight=False, markup=False)


def source_file(spec: str, vary: str | None = None, *, field: str = "SPEC") -> SourceFile | None:
    """Read the Python file that a SPEC names, with the files beside it that it imports; None if it names none.

    Raises:
        InvalidInput: If it cannot be read, or the files cannot be joined.
    """
    found = SPEC.fullmatch(spec)
    if found is None:
        return None
    path, target = Path(found["path"]), found["target"] or ""
    if not path.is_file():
        raise InvalidInput(f"'{path}' does not exist", field)
    text = read_problem(path)
    name = name_of_problem(path.resolve()) if not target and is_problem(text) else ""
    names = None if vary in (None, ALL) else tuple(re.findall(r"\w+", "" if vary == NONE else str(vary)))
    try:
        joined = read_file(path, OWN_NAMES)
    except InvalidInput as error:
        raise InvalidInput(error.detail, field) from error
    several = joined if joined.is_joined else None
    return SourceFile(several.text if several else text, name, target, names, files=several)


def operator_in_one_step(
    file: SourceFile, device: str, keep: Path | None = None, *, seeded: bool = True, required: bool = True
) -> Operator:
    """Make an operator with a seed kernel from a file, and show it.

    Args:
        file: The file.
        device: Device that the kernel is for.
        keep: Folder to keep the operator's folder in; None to keep none.
        seeded: True if TorchInductor should write a seed kernel.
        required: True if there is no operator without one; otherwise its absence is told.

    Raises:
        InvalidInput: If the file cannot become an operator, or has no seed kernel although one is required.
        Unavailable: If one of our processes failed.
    """
    imported = asyncio.run(_imported(file, device, seeded=seeded))
    operator = require_seed(imported) if seeded and required else imported.operator
    if seeded and not operator.seeds:
        err.print(f"note: no seed kernel to compare with: {imported.no_seed}", highlight=False, markup=False)
    home = None if keep is None else keep / operator.name
    if home is not None and not home.exists():
        write_folder(home, imported)
        err.print(
            f"the operator is in {home}; edit it, and search with: reef search {_as_folder(home)}", highlight=False
        )
    return operator


def _as_folder(path: Path) -> str:
    """Return a path that is no name of the catalogue."""
    return str(path) if path.is_absolute() else f"./{path}"


def with_seed(operator: Operator, device: str) -> Operator:
    """Return an operator with seed kernels; if it has none, TorchInductor writes one.

    Raises:
        InvalidInput: If TorchInductor writes none.
        Unavailable: If one of our processes failed.
    """
    if operator.seeds:
        return operator
    with StepLines() as steps:
        return asyncio.run(with_seeds(operator, device, steps.tell))


def write_folder(home: Path, imported: ImportedOperator) -> None:
    """Write the folder of an operator."""
    home.mkdir(parents=True, exist_ok=True)
    for name, text in files_of_operator(imported.operator, imported.notes).items():
        (home / name).write_text(text, encoding="utf-8")


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


async def _imported(file: SourceFile, device: str, *, seeded: bool = True) -> ImportedOperator:
    with StepLines() as steps:
        async with KernelbenchImporter(target=read_device(device, DEVICES).target) as importer:
            try:
                imported = await importer.operator(file, seeded=seeded, ask=_asking(), tell=steps.tell)
            except InvalidInput as error:
                raise InvalidInput(file.in_files(error.detail), error.field) from error
    for line in description(imported.operator):
        err.print(line, highlight=False, markup=False)
    for note in imported.notes:
        err.print(f"note: {note}", highlight=False, markup=False)
    return imported


class StepLines:
    """Lines on standard error that tell each step, and the seconds that it took."""

    def __init__(self) -> None:
        self._began: float | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def tell(self, step: str) -> None:
        """Begin a step, and end the one before."""
        self.end()
        err.print(f"{step} ...", end="", highlight=False, markup=False)
        self._began = monotonic()

    def end(self) -> None:
        """End the step."""
        if self._began is not None:
            err.print(f" {monotonic() - self._began:.1f} s", highlight=False)
            self._began = None


def description(operator: Operator) -> list[str]:
    """Describe an operator: signature, and sizes with their ranges."""
    arguments = ", ".join([*map(_input_in_words, operator.inputs), *map(_scalar_in_words, operator.scalars)])
    results = ", ".join(f"{output.name}: {output.dtype}" for output in operator.outputs)
    sizes = []
    for name in operator.dimensions:
        values = ", ".join(str(shape.dims[name]) for shape in operator.shapes)
        bounds = operator.ranges.get(name)
        sizes.append(f"{name} = {values}" + (f" ({bounds[0]} to {bounds[1]})" if bounds else ""))
    return [f"{operator.entry}({arguments}) -> {results}", f"sizes: {'; '.join(sizes)}"]


def _input_in_words(item: Input) -> str:
    return f"{item.name}: {item.dtype}[{', '.join(map(str, item.shape))}]"


def _scalar_in_words(scalar: Scalar) -> str:
    return f"{scalar.name} = {scalar.value}"


def _asking() -> Ask | None:
    """Return the question for the sizes that vary; None where nobody can answer."""
    return _ask if sys.stdin.isatty() and sys.stderr.isatty() else None


def _ask(found: ProblemInspection) -> tuple[str, ...]:
    known = tuple(found.ranges)
    err.print()
    while True:
        answer = typer.prompt(f"Sizes that vary ({', '.join(known)}; or {NONE})", default=ALL, err=True)
        names = known if answer == ALL else () if answer == NONE else tuple(re.findall(r"\w+", answer))
        if set(names) <= set(known):
            return names
