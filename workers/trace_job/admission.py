"""Admission: the gate is passed in a jail of its own, since a hostile graph can ask for any time and memory.

No stranger's Python runs there; what it answers was said by our own code.
"""

from functools import lru_cache

from pydantic import ValidationError

from workers import mutation_testing, sandbox
from workers.protocol import Graph, MutationReport, Operator, ShapeRole, WireModel
from workers.sandbox import SandboxEnding, SandboxLimits
from workers.tracer.refusal import tidy

LIMITS = SandboxLimits(wall_s=40.0, cpu_s=30.0, memory_bytes=2 * 2**30, reply_bytes=2**20)
"""The gate keeps its own time, of which these are several times as much, for busy machines and large shapes. With the
export before it, it ends well before a worker gives its bench up. References of the catalogue take under 0.5 GiB."""
KEPT = 32
"""Verdicts that are kept, so that further searches over an operator need not wait for it."""


class _Question(WireModel):
    """An operator with its reference."""

    operator: Operator
    graphs: tuple[Graph, ...]


def admission(operator: Operator, graphs: tuple[Graph, ...]) -> MutationReport:
    """Whether an operator's checks tell right from wrong; `untried` with the reason if that cannot be found out.

    Raises:
        JailFailed: If the jail cannot be set up.
        JailUnsafe: If this machine cannot kill a jail as a tree.
    """
    fixed = tuple(graph for graph in graphs if graph.shape.role is not ShapeRole.HELD_OUT)
    return _passed(_Question(operator=operator, graphs=fixed or graphs).model_dump_json().encode())


@lru_cache(maxsize=KEPT)
def _passed(question: bytes) -> MutationReport:
    result = sandbox.run(_answer, question, LIMITS)
    if result.ending is not SandboxEnding.RETURNED:
        said = (result.detail.splitlines() or [""])[-1]
        return MutationReport(
            verdict="untried", reason=tidy(f"the process that tried answers on the operator's checks {said}")
        )
    try:
        return MutationReport.model_validate_json(result.reply)
    except ValidationError as error:
        return MutationReport(verdict="untried", reason=tidy(f"what was found out is no table: {error}"))


def _answer(question: bytes) -> bytes:
    """Runs in the jail."""
    asked = _Question.model_validate_json(question)
    return mutation_testing.admit(asked.operator, asked.graphs).model_dump_json().encode()
