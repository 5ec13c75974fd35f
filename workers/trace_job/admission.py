"""Admission: mutation testing in a sandbox of its own, because a hostile graph can take any time and memory.

Only our own code runs there, so its reply is trusted.
"""

from functools import lru_cache

from pydantic import ValidationError

from workers import mutation_testing, sandbox
from workers.protocol import Graph, MutationReport, Operator, ShapeRole, WireModel
from workers.sandbox import SandboxEnding, SandboxLimits, SandboxResult
from workers.tracer.refusal import tidy

LIMITS = SandboxLimits(wall_s=40.0, cpu_s=30.0, memory_bytes=2 * 2**30, reply_bytes=2**20)
"""Mutation testing limits its own time; these limits are several times that, for busy machines and large shapes.
Together with the export they are well below the time after which a worker abandons its executor. References of the
catalogue take under 0.5 GiB."""
_NO_MEMORY = "can't allocate memory"
"""Words of torch's error when a tensor does not fit."""
KEPT = 32
"""Maximum number of cached reports, so that further searches over an operator need not wait."""


class _Question(WireModel):
    """An operator with its reference."""

    operator: Operator
    graphs: tuple[Graph, ...]


def admission(operator: Operator, graphs: tuple[Graph, ...], limits: SandboxLimits = LIMITS) -> MutationReport:
    """Test if an operator's checks tell right from wrong. Returns `untried` with the reason if the test fails to run.

    Args:
        operator: The operator.
        graphs: Its reference.
        limits: Limits of the test's process.

    Raises:
        SandboxFailed: If the sandbox cannot be set up.
        SandboxUnsafe: If this machine cannot kill a sandbox as a process tree.
    """
    fixed = tuple(graph for graph in graphs if graph.shape.role is not ShapeRole.HELD_OUT)
    return _passed(_Question(operator=operator, graphs=fixed or graphs).model_dump_json().encode(), limits)


@lru_cache(maxsize=KEPT)
def _passed(question: bytes, limits: SandboxLimits) -> MutationReport:
    result = sandbox.run(_answer, question, limits)
    if result.ending is not SandboxEnding.RETURNED:
        return MutationReport(verdict="untried", reason=tidy(_reason_of(result, limits)))
    try:
        return MutationReport.model_validate_json(result.reply)
    except ValidationError as error:
        return MutationReport(verdict="untried", reason=tidy(f"the mutation report is invalid: {error}"))


def _reason_of(result: SandboxResult, limits: SandboxLimits) -> str:
    """Return the reason for a run without a report: the error that it raised, or its ending without the stack."""
    if _NO_MEMORY in result.reason:
        limit_gib = limits.memory_bytes // 2**30
        return f"mutation testing needs more than {limit_gib} GiB of memory; let `ranges` start with smaller sizes"
    return f"the process that tests the operator's checks {result.reason}"


def _answer(question: bytes) -> bytes:
    """Run mutation testing inside the sandbox."""
    asked = _Question.model_validate_json(question)
    return mutation_testing.admit(asked.operator, asked.graphs).model_dump_json().encode()
