"""Symbolic tracing: the host code's work as formulas over the sizes, with plans at many shapes to compare them with.

Nothing is compiled. Each shape is traced with plain numbers, and once more with symbolic sizes unless the guards of an
earlier symbolic plan admit it. The parent compares the two.
"""

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch._dispatch.python import enable_python_dispatcher
from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import ASTSource

from workers.protocol import Kernel, Outcome, Shape, TraceJob
from workers.protocol.symbolic import MAX_SYMBOLIC_PLANS, SymbolicPlan
from workers.targets import TARGETS
from workers.tracer.compiler import Compiled, Compiler
from workers.tracer.execution import CandidateEdge, CandidateExecution, make_input
from workers.tracer.refusal import TraceRefused
from workers.tracer.reply import SymbolicReply, TraceEnded
from workers.tracer.sizes import SizeLog, install, plain
from workers.tracer.source import ALLOWED_IMPORTS
from workers.tracer.symbolic_recorder import SymbolicRecorder

MAX_FAILURES = 3
"""Number of symbolic traces that may fail before no more are tried: most candidates fail at all shapes or at none."""


class Specialiser(Compiler):
    """Stand-in for the compiler that compiles nothing: a kernel's text is what Triton would compile."""

    def compile(
        self, source: ASTSource, target: GPUTarget, options: Mapping[str, object], _env_vars: object = None
    ) -> Compiled:
        """Return a specialisation as a kernel."""
        facts = (source.name, source.signature, source.constants, source.attrs, sorted(map(str, options.items())))
        kernel = Kernel(language="ptx", assembly=repr(facts), target=self._target.name, num_warps=1)
        return Compiled(source, kernel, kernel.digest, ())


class SymbolicExecution(CandidateExecution):
    """Symbolic traces of one configuration of a candidate, in a process of its own."""

    def run_symbolic(self) -> SymbolicReply:
        """Trace all shapes, plainly and symbolically.

        Raises:
            TraceRefused: If the candidate fails at a shape that is traced plainly.
        """
        install()
        self._open()
        self._tuning.choose(self._tuning.choice_of(self._job.symbolic or {}))
        instances = tuple(self._trace_shape(shape) for shape in self._job.shapes)
        found: list[SymbolicPlan] = []
        failures: list[TraceEnded] = []
        for shape in self._job.shapes:
            if len(failures) >= MAX_FAILURES:
                break
            if any(plan.admits(shape.dims) for plan in found):
                continue
            with CandidateEdge() as edge:
                _add(found, self._trace_symbolically(shape))
            if edge.ended.reason:
                failures.append(edge.ended)
        reason = failures[0].reason if failures else ""
        return SymbolicReply(plans=tuple(found), instances=instances, failure=reason)

    def _trace_symbolically(self, shape: Shape) -> SymbolicPlan:
        operator = self._job.operator
        log = SizeLog(shape.dims, operator.ranges)
        sizes: Any = {name: log.size(name) for name in shape.dims}
        with enable_python_dispatcher():
            self._prepare(_Settings(sizes))
            given = [make_input(item, operator.input_shape(item, sizes)) for item in operator.given]
            recorder = SymbolicRecorder(operator.policy, given, log)
            arguments = operator.arguments(given, shape.dims)
            returned = self._results(recorder, arguments, operator.scalar_values(sizes), compiles=True)
            plan = recorder.symbolic_plan(self._checked(returned, operator.results, recorder))
        if not plan.launches:
            raise TraceRefused(Outcome.PLAN_REJECTED, "launches no kernel", line=self._entry_line)
        return plan


class _Settings(dict[str, object]):
    """Sizes that a module is made with; those that are read become guards, because plain numbers come of them."""

    def get(self, name: str, default: object = None) -> object:
        """Return a size as a plain number."""
        return plain(super().get(name, default))


def _add(found: list[SymbolicPlan], plan: SymbolicPlan) -> None:
    """Add a plan as cases of one that does the same; beyond `MAX_SYMBOLIC_PLANS` it is left out."""
    for index, known in enumerate(found):
        both = known.merged(plan)
        if both is not None:
            found[index] = both
            return
    if len(found) < MAX_SYMBOLIC_PLANS:
        found.append(plan)


def trace_symbolic(request: bytes, allowed_imports: Sequence[str] = ALLOWED_IMPORTS) -> bytes:
    """Trace a candidate symbolically. The process cannot be used for anything else afterwards.

    Args:
        request: A `TraceJob` with a source and `symbolic`, as JSON.
        allowed_imports: Modules that the source may import.

    Returns:
        A `SymbolicReply` as JSON.
    """
    warnings.simplefilter("ignore")
    job = TraceJob.model_validate_json(request)
    reply = None
    with CandidateEdge() as edge:
        reply = SymbolicExecution(job, Specialiser(TARGETS[job.target]), allowed_imports).run_symbolic()
    return (reply or SymbolicReply(**edge.ended.model_dump())).model_dump_json().encode()
