"""Problem files of KernelBench, inspected: a question a line in, what the problem is a line out.

    python -m workers kernelbench

A problem is somebody's Python, so each is looked at in a jail of its own that this process forks.
"""

from pydantic import ValidationError

from workers import jail
from workers.jail import Ending, Limits
from workers.kernelbench.inspecting import inspect_problem
from workers.protocol.kernelbench import Inspection, Question
from workers.tracer.refusal import tidy

__all__ = ["inspect"]

LIMITS = Limits(wall_s=60.0, cpu_s=60.0, memory_bytes=2 * 2**30, reply_bytes=2**20)
"""Problems of levels 1 and 2 take under 2 s; those with many layers are run for each size that is tried."""


def inspect(question: Question) -> Inspection:
    """Look at one problem.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    result = jail.run(inspect_problem, question.model_dump_json().encode(), LIMITS)
    if result.ending is not Ending.RETURNED:
        said = (result.detail.splitlines() or [""])[-1]
        return Inspection(reason=tidy(f"the process that looks at it {said}"))
    try:
        found = Inspection.model_validate_json(result.reply)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        return Inspection(reason=tidy(f"what its inspection says does not hold: {where}: {first['msg']}"))
    return found.model_copy(update={"reason": tidy(found.reason), "notes": tuple(map(tidy, found.notes))})
