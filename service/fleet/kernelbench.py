"""Import of KernelBench problems as operators: local workers inspect them in sandboxes and draft seeds."""

import asyncio
import os
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from pydantic import ValidationError

from kernelreef.validation import invalid
from service.errors import InvalidInput, Unavailable
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.jobs import DRAFT_S
from service.fleet.devices import DEVICES, read_device
from service.fleet.tf32x3_seed import on_matrix_units
from service.operators.kernelbench import operator_of_problem
from service.operators.shapes import all_shapes
from workers.protocol import Operator, TraceJob, TraceReport
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.safe_python import PYTHON, safe_environment
from workers.targets import TARGETS

COMMAND = (*PYTHON, "-m", "workers", "kernelbench")
ANSWER_S = 180.0
"""Seconds for one answer: the first imports libraries from a cold disk, and a sandbox is killed after a minute."""
FAREWELL_S = 5.0
"""Seconds that an idle process gets to exit by itself."""
HERE = "import"
"""Placeholder for the job's and the search's id in jobs of an import."""

OWN_SEED = "write its spec with `reef import kernelbench`, add a seed of your own, and search with that spec"
"""Remedy if TorchInductor writes no seed."""


@dataclass(frozen=True)
class ImportedOperator:
    """Operator imported from a problem.

    Attributes:
        operator: The operator.
        notes: Notes for readers of its spec.
        no_seed: Reason why it has no seed kernel; empty if it has one.
    """

    operator: Operator
    notes: tuple[str, ...]
    no_seed: str


class KernelbenchImporter:
    """Importer of problems. Use it as an async context manager, in which its processes stay warm."""

    def __init__(self, *, target: str | None = None, command: Sequence[str] = COMMAND) -> None:
        """Prepare without starting a process.

        Args:
            target: Target that seeds are drafted for; the first of `TARGETS` if None.
            command: Command that starts the inspector.
        """
        self._target = target or next(iter(TARGETS))
        self._command = command
        self._resources = AsyncExitStack()
        self._inspector: asyncio.subprocess.Process | None = None
        self._executor: LocalExecutor | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def operator(
        self, name: str, source: str, *, seeded: bool = True, tell: Callable[[str], None] = lambda step: None
    ) -> ImportedOperator:
        """Import a problem as an operator.

        Args:
            name: Name of the operator.
            source: Text of the problem.
            seeded: True if TorchInductor should write a seed kernel.
            tell: Receives the name of each step when it begins.

        Raises:
            InvalidInput: If the problem cannot become an operator; says why.
            Unavailable: If a worker process failed.
        """
        tell("Inspecting the problem in a sandbox")
        found = await self.inspect(source)
        operator = operator_of_problem(name, source, found)
        if not seeded:
            return ImportedOperator(operator, found.notes, "none was requested")
        tell("TorchInductor writes a seed kernel")
        report = await self._draft(operator)
        if not report.draft:
            return ImportedOperator(operator, found.notes, report.reason)
        second = on_matrix_units(report.draft)
        seeds = (report.draft,) if second is None else (report.draft, second)
        return ImportedOperator(operator_of_problem(name, source, found, seeds), found.notes, "")

    async def inspect(self, source: str, *, published: bool = False) -> ProblemInspection:
        """Inspect a problem in a sandbox.

        Args:
            source: Text of the problem.
            published: True to draw inputs as the problem draws them.

        Raises:
            InvalidInput: If the text is longer than any problem.
            Unavailable: If the inspector failed.
        """
        try:
            question = ProblemQuestion(source=source, published=published)
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

    async def _draft(self, operator: Operator) -> TraceReport:
        if self._executor is None:
            self._executor = await self._resources.enter_async_context(LocalExecutor("trace"))
        job = TraceJob(
            id=HERE,
            search=HERE,
            operator=operator,
            shapes=all_shapes(operator, seed=0),
            target=self._target,
            drafts=True,
            deadline_s=DRAFT_S,
        )
        return await self._executor.run(job, TraceReport)


async def searchable(name: str, source: str, device: str, tell: Callable[[str], None] = lambda step: None) -> Operator:
    """Import a problem as an operator with a seed kernel.

    Args:
        name: Name of the operator.
        source: Text of the problem.
        device: Name of the device to judge on.
        tell: Receives the name of each step when it begins.

    Raises:
        InvalidInput: If the problem cannot become an operator, TorchInductor writes no seed for it, or the device is
            unknown.
        Unavailable: If a worker process failed.
    """
    target = read_device(device, DEVICES).target
    async with KernelbenchImporter(target=target) as importer:
        imported = await importer.operator(name, source, tell=tell)
    if imported.no_seed:
        raise InvalidInput(f"this problem has no seed kernel: {imported.no_seed}; {OWN_SEED}", "problem")
    return imported.operator


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), FAREWELL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
