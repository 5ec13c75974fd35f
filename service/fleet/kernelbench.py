"""Operators from Python files: local workers inspect the files in sandboxes and draft seeds."""

import asyncio
import os
import re
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from typing import Self

from pydantic import ValidationError

from kernelreef.validation import invalid
from service.errors import InvalidInput, Unavailable
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.jobs import DRAFT_S
from service.fleet.all_sizes_seed import without_choice
from service.fleet.devices import DEVICES, read_device
from service.fleet.matrix_seed import on_matrix_units
from service.operators.joined_files import JoinedFiles
from service.operators.kernelbench import operator_of_problem
from service.operators.shapes import all_shapes
from workers.protocol import Operator, TraceJob, TraceReport
from workers.protocol.extent import names_in
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.safe_python import PYTHON, safe_environment
from workers.targets import TARGETS

COMMAND = (*PYTHON, "-m", "workers", "kernelbench")
ANSWER_S = 270.0
"""Seconds for one answer: the first imports libraries from a cold disk, and a sandbox is killed after four minutes."""
FAREWELL_S = 5.0
"""Seconds that an idle process gets to exit by itself."""
HERE = "import"
"""Placeholder for the job's and the search's id in jobs of an import."""

TF32_NOTE = (
    "PyTorch's defaults compute its convolutions or recurrent layers with TF32, so kernel and baselines may use it."
)
"""Note on an operator with `precision.allow_tf32`."""
NO_RANGE = "has no range: TorchInductor writes no seed that serves several sizes."
"""End of the note on a dimension without a range, which begins with its name in quotes."""
OWN_SEED = "write its folder with `reef new`, add a seed of your own, and search with that folder"
"""Remedy if TorchInductor writes no seed."""


Ask = Callable[[ProblemInspection], tuple[str, ...]]
"""Function that chooses the dimensions that vary."""
Tell = Callable[[str], None]
"""Function that receives the name of each step when it begins."""


@dataclass(frozen=True)
class SourceFile:
    """A Python file with a function or module to search for.

    Attributes:
        text: Its text.
        name: Name of the operator; that of the function or module if empty.
        target: Name of the function or module; empty for a problem of KernelBench, or the only one.
        vary: Names of the dimensions that vary; None for all that may. Without a range a size is fixed.
        strict: True to require float32 products also where PyTorch's defaults use TF32.
        files: The files that the text is joined from; None if it is one file's.
    """

    text: str
    name: str = ""
    target: str = ""
    vary: tuple[str, ...] | None = None
    strict: bool = False
    files: JoinedFiles | None = None

    def in_files(self, reason: str) -> str:
        """Return a reason with each line of the text as one of the file that it comes from."""
        if self.files is None:
            return reason
        place = self.files.place
        return re.sub(r"\bline (\d+)", lambda found: place(int(found[1])), reason)


@dataclass(frozen=True)
class ImportedOperator:
    """Operator made from a Python file.

    Attributes:
        operator: The operator.
        notes: Notes for readers of its spec.
        no_seed: Reason why it has no seed kernel; empty if it has one.
    """

    operator: Operator
    notes: tuple[str, ...]
    no_seed: str


class KernelbenchImporter:
    """Importer of Python files. Use it as an async context manager, in which its processes stay warm."""

    def __init__(
        self, *, target: str | None = None, draft_s: float = DRAFT_S, command: Sequence[str] = COMMAND
    ) -> None:
        """Prepare without starting a process.

        Args:
            target: Target that seeds are drafted for; the first of `TARGETS` if None.
            draft_s: Seconds of a processor for one draft.
            command: Command that starts the inspector.
        """
        self._target, self._draft_s = target or next(iter(TARGETS)), draft_s
        self._command = command
        self._resources = AsyncExitStack()
        self._inspector: asyncio.subprocess.Process | None = None
        self._executor: LocalExecutor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def operator(
        self, file: SourceFile, *, seeded: bool = True, ask: Ask | None = None, tell: Tell = lambda step: None
    ) -> ImportedOperator:
        """Make an operator from a file.

        Args:
            file: The file.
            seeded: True if TorchInductor should write a seed kernel. A range that would cost the seed is left out.
            ask: Function that chooses the sizes that vary, among the ranges of one example.
            tell: Receives the name of each step when it begins.

        Raises:
            InvalidInput: If the file cannot become an operator; says why.
            Unavailable: If a worker process failed.
        """
        tell("Inspecting it in a sandbox")
        found = await self.inspect(file.text, target=file.target)
        if ask is not None and file.vary is None and found.ranges and len(found.shapes) == 1:
            file = replace(file, vary=ask(found))
        found = chosen(found, file)
        operator = operator_of_problem(file.name, file.text, found)
        notes = (*found.notes, TF32_NOTE) if operator.precision.allow_tf32 else found.notes
        if not seeded:
            return ImportedOperator(operator, notes, "none was requested")
        return await self.seeded(operator, notes, tell)

    async def seeded(
        self, operator: Operator, notes: tuple[str, ...] = (), tell: Tell = lambda step: None
    ) -> ImportedOperator:
        """Have TorchInductor write a seed kernel for an operator that has none.

        Args:
            operator: The operator.
            notes: Notes so far. One is added for each range that is left out.
            tell: Receives the name of each step when it begins.

        Raises:
            Unavailable: If a worker process failed.
        """
        tell("TorchInductor writes a seed kernel")
        report = await self._draft(operator)
        narrowed = operator
        while not report.draft and narrowed.ranges:
            narrowed = narrowed_by(narrowed, report.reason)
            tell(f"Again with fewer sizes that vary: {', '.join(narrowed.ranges) or 'none'}")
            report = await self._draft(narrowed)
        if not report.draft:
            return ImportedOperator(operator, notes, report.reason)
        lost = [name for name in operator.ranges if name not in narrowed.ranges]
        notes += tuple(f"'{name}' {NO_RANGE}" for name in lost)
        return ImportedOperator(narrowed.model_copy(update={"seeds": seeds_of(report.draft, narrowed)}), notes, "")

    async def inspect(self, source: str, *, target: str = "", published: bool = False) -> ProblemInspection:
        """Inspect a file in a sandbox.

        Args:
            source: Text of the file.
            target: Name of the function or module; empty for a problem of KernelBench, or the only one.
            published: True to draw inputs as the problem draws them.

        Raises:
            InvalidInput: If the text is longer than any file may be.
            Unavailable: If the inspector failed.
        """
        try:
            question = ProblemQuestion(source=source, target=target, published=published)
        except ValidationError as error:
            raise InvalidInput(f"not a problem file: {invalid(error, ProblemQuestion).detail}", "problem") from None
        process = self._inspector or await self._start()
        if process.stdin is None or process.stdout is None:
            raise Unavailable("the inspector of problems has no pipes")
        try:
            process.stdin.write(question.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_S)
            return ProblemInspection.model_validate_json(line)
        except TimeoutError as error:
            # Its late answer would be taken as the answer to the next question.
            process.kill()
            self._inspector = None
            raise Unavailable(f"the inspector of problems gave no answer in {ANSWER_S:g} s") from error
        except (OSError, ValidationError) as error:
            self._inspector = None
            raise Unavailable("the inspector of problems ended; `reef doctor` shows what is missing") from error

    async def _start(self) -> asyncio.subprocess.Process:
        self._inspector = await asyncio.create_subprocess_exec(
            *self._command,
            env=safe_environment(os.environ),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=2**22,
        )
        self._resources.push_async_callback(_end, self._inspector)
        return self._inspector

    async def trace(self, job: TraceJob) -> TraceReport:
        """Have a job done by the process that drafts.

        Raises:
            Unavailable: If the process failed.
        """
        if self._executor is None:
            self._executor = await self._resources.enter_async_context(LocalExecutor("trace"))
        return await self._executor.run(job, TraceReport)

    async def _draft(self, operator: Operator) -> TraceReport:
        job = TraceJob(
            id=HERE,
            search=HERE,
            operator=operator,
            shapes=all_shapes(operator, seed=0),
            target=self._target,
            drafts=True,
            deadline_s=self._draft_s,
        )
        return await self.trace(job)


def seeds_of(draft: str, operator: Operator) -> tuple[str, ...]:
    """Return a draft's rewriting for the matrix units, the same without kernels for one shape, and what is as drafted.

    Products on the matrix units come first: all candidates are timed beside the first seed, and each pair takes as long
    as it does (10.3 ms as drafted, beside 2.9 ms, for like problems of KernelBench on an H100, 2026-11-27).
    """
    general = without_choice(draft, operator.entry)
    drafts = [draft] if general is None else [draft, general]
    quick = [made for each in drafts if (made := on_matrix_units(each, operator)) is not None]
    return (*quick, drafts[-1]) if quick else tuple(drafts)


async def searchable(file: SourceFile, device: str, tell: Tell = lambda step: None) -> Operator:
    """Make an operator with a seed kernel from a file.

    Args:
        file: The file.
        device: Name of the device to judge on.
        tell: Receives the name of each step when it begins.

    Raises:
        InvalidInput: If the file cannot become an operator, TorchInductor writes no seed for it, or the device is
            unknown.
        Unavailable: If a worker process failed.
    """
    async with KernelbenchImporter(target=read_device(device, DEVICES).target) as importer:
        return require_seed(await importer.operator(file, tell=tell))


async def with_seeds(operator: Operator, device: str, tell: Tell = lambda step: None) -> Operator:
    """Have TorchInductor write a seed kernel for an operator that has none.

    Args:
        operator: The operator.
        device: Name of the device to judge on.
        tell: Receives the name of each step when it begins.

    Raises:
        InvalidInput: If TorchInductor writes none, or the device is unknown.
        Unavailable: If a worker process failed.
    """
    async with KernelbenchImporter(target=read_device(device, DEVICES).target) as importer:
        return require_seed(await importer.seeded(operator, tell=tell))


def require_seed(imported: ImportedOperator) -> Operator:
    """Return an operator if it has a seed kernel.

    Raises:
        InvalidInput: If it has none; says why, and the remedy.
    """
    if imported.no_seed:
        raise InvalidInput(f"this problem has no seed kernel: {imported.no_seed}; {OWN_SEED}", "problem")
    return imported.operator


def chosen(found: ProblemInspection, file: SourceFile) -> ProblemInspection:
    """Return an inspection with the dimensions that a file lets vary, and the precision that it asks for.

    Raises:
        InvalidInput: If a chosen dimension may not vary.
    """
    for name in file.vary or ():
        if name not in found.ranges:
            known = ", ".join(found.ranges) or "none"
            raise InvalidInput(f"'{name}' is no size that may vary; those are: {known}", "vary")
    kept = {name: bounds for name, bounds in found.ranges.items() if file.vary is None or name in file.vary}
    return found.model_copy(update={"ranges": kept, "default_tf32": found.default_tf32 and not file.strict})


def narrowed_by(operator: Operator, reason: str) -> Operator:
    """Return an operator with fewer ranges than one for which no seed was written.

    The range that the reason names is left out. Without a name that of the first input's first axis, which is rarely
    part of a formula, remains; at last none does.
    """
    blamed = [name for name in operator.ranges if f"'{name}'" in reason]
    leading = [name for extent in operator.inputs[0].shape[:1] for name in names_in(extent)]
    kept = {name for name in operator.ranges if name not in blamed} if blamed else {*leading}
    ranges = {name: bounds for name, bounds in operator.ranges.items() if name in kept}
    return operator.model_copy(update={"ranges": {} if ranges == operator.ranges else ranges})


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), FAREWELL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
