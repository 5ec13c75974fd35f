"""Problem files of KernelBench become operators: this machine's workers look at them in jails and draft seeds."""

import asyncio
import os
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from pydantic import ValidationError

from service.errors import InvalidInput, Unavailable
from service.evaluation.executor_client import LocalExecutor
from service.evaluation.jobs import DRAFT_S
from service.fleet.tf32x3_seed import on_matrix_units
from service.operators.kernelbench import operator_of_problem
from service.operators.shapes import all_shapes
from workers.protocol import Device, Operator, TraceJob, TraceReport
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.safe_python import PYTHON, safe_environment
from workers.targets import TARGETS

COMMAND = (*PYTHON, "-m", "workers", "kernelbench")
ANSWER_S = 180.0
"""Seconds for one answer: libraries are imported from cold disks for the first, and a jail is ended after a minute."""
FAREWELL_S = 5.0
"""Seconds that an idle process gets to end by itself."""
HERE = "import"
"""What jobs and reports of an import carry where a search's would carry ids."""

OWN_SEED = "have `reef import kernelbench` write its spec, add a seed of your own, and search for that"
"""What to do where there is none."""


@dataclass(frozen=True)
class ImportedOperator:
    """An operator made of a problem.

    Attributes:
        operator: What it is now.
        notes: What a reader of it should know.
        no_seed: Why it has no kernel to start from; empty if it has one.
    """

    operator: Operator
    notes: tuple[str, ...]
    no_seed: str


class KernelbenchImporter:
    """Makes operators of problems. Use as an async context; its processes stay warm inside it."""

    def __init__(self, *, target: str | None = None, command: Sequence[str] = COMMAND) -> None:
        """Prepare; no process is started yet.

        Args:
            target: What seeds are drafted for; the first target there is, if None.
            command: What starts a process that looks at problems.
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

    async def operator(self, name: str, source: str, *, seeded: bool = True) -> ImportedOperator:
        """Make an operator of a problem.

        Args:
            name: What to call it.
            source: The problem's text.
            seeded: Whether TorchInductor is to write a kernel to start from.

        Raises:
            BadInput: If no operator can be made of it; says why.
            Unavailable: If a process of ours failed.
        """
        found = await self.inspect(source)
        operator = operator_of_problem(name, source, found)
        if not seeded:
            return ImportedOperator(operator, found.notes, "none was asked for")
        report = await self._draft(operator)
        if not report.draft:
            return ImportedOperator(operator, found.notes, report.reason)
        second = on_matrix_units(report.draft)
        seeds = (report.draft,) if second is None else (report.draft, second)
        return ImportedOperator(operator_of_problem(name, source, found, seeds), found.notes, "")

    async def inspect(self, source: str, *, published: bool = False) -> ProblemInspection:
        """What a problem is.

        Args:
            source: Its text.
            published: Whether inputs are to be drawn as the problem draws them.

        Raises:
            BadInput: If it is longer than any problem.
            Unavailable: If the process that looks at it failed.
        """
        try:
            question = ProblemQuestion(source=source, published=published)
        except ValidationError as error:
            raise InvalidInput(f"not a problem file: {error.errors()[0]['msg']}", "problem") from None
        process = self._inspector or await self._start()
        if process.stdin is None or process.stdout is None:
            raise Unavailable("the process that looks at problems has no pipes")
        try:
            process.stdin.write(question.model_dump_json().encode() + b"\n")
            await process.stdin.drain()
            line = await asyncio.wait_for(process.stdout.readline(), ANSWER_S)
            return ProblemInspection.model_validate_json(line)
        except TimeoutError as error:
            # Its answer would be taken for that to the next question.
            process.kill()
            self._inspector = None
            raise Unavailable(f"the process that looks at problems gave no answer in {ANSWER_S:g} s") from error
        except (OSError, ValidationError) as error:
            self._inspector = None
            raise Unavailable("the process that looks at problems ended; `reef doctor` says what is missing") from error

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


async def searchable(name: str, source: str, device: str) -> Operator:
    """The operator of a problem, with a kernel that a search can start from.

    Args:
        name: What to call it.
        source: The problem's text.
        device: What it is to be judged on.

    Raises:
        BadInput: If no operator can be made of it, TorchInductor writes no kernel for it, or there is no such device.
        Unavailable: If a process of ours failed.
    """
    try:
        target = Device.parse(device).target
    except ValueError as error:
        raise InvalidInput(str(error), "devices") from None
    async with KernelbenchImporter(target=target) as importer:
        imported = await importer.operator(name, source)
    if imported.no_seed:
        raise InvalidInput(f"this problem has no kernel to start from: {imported.no_seed}; {OWN_SEED}", "problem")
    return imported.operator


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    try:
        await asyncio.wait_for(process.wait(), FAREWELL_S)
    except TimeoutError:
        process.kill()
        await process.wait()
