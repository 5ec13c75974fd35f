"""Inspection of KernelBench's problem files: one question per line in, one inspection per line out.

    python -m workers kernelbench

A problem is untrusted Python, so each is inspected in a sandbox of its own that this process forks.
"""

from pydantic import ValidationError

from workers import sandbox
from workers.kernelbench.inspection import inspect_problem
from workers.protocol.kernelbench import ProblemInspection, ProblemQuestion
from workers.sandbox import SandboxEnding, SandboxLimits
from workers.tracer.refusal import tidy

__all__ = ["inspect"]

LIMITS = SandboxLimits(wall_s=240.0, cpu_s=60.0, memory_bytes=2 * 2**30, reply_bytes=2**20)
"""Limits. Problems of levels 1 and 2 take under 2 s of a processor; those with many layers run for each size tried. The
clock allows four times the processor's seconds, as others may be using it."""


def inspect(question: ProblemQuestion) -> ProblemInspection:
    """Inspect one problem.

    Raises:
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    result = sandbox.run(inspect_problem, question.model_dump_json().encode(), LIMITS)
    if result.ending is not SandboxEnding.RETURNED:
        return ProblemInspection(reason=tidy(f"the process that inspects it {result.reason}"))
    try:
        found = ProblemInspection.model_validate_json(result.reply)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return ProblemInspection(reason=tidy(f"its inspection is invalid: {where}: {first['msg']}"))
    return found.model_copy(update={"reason": tidy(found.reason), "notes": tuple(map(tidy, found.notes))})
