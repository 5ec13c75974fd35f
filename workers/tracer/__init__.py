"""The tracer: runs inside the sandbox, in a process of its own per candidate, and turns a source into launch plans.

The candidate's Python runs once per shape on tensors without data (`tensors`). Meanwhile `torch.cuda` and Triton answer
for the target (`fake_device`). Operations are recorded or refused (`recorder`), launches are compiled to assembly text
(`launches`, `compiler`), and configurations of autotuned kernels become variants (`tuning`).

The candidate shares the process and can rewrite all of it, so the result is a claim that the parent checks.
"""

import time
import warnings
from collections.abc import Sequence

from workers.protocol import TraceJob
from workers.targets import TARGETS
from workers.tracer.compiler import Compiler
from workers.tracer.execution import CandidateEdge, CandidateExecution
from workers.tracer.reply import TraceReply
from workers.tracer.source import ALLOWED_IMPORTS

__all__ = ["trace"]


def trace(request: bytes, allowed_imports: Sequence[str] = ALLOWED_IMPORTS) -> bytes:
    """Trace a candidate for all shapes of a job. The process cannot be used for anything else afterwards.

    Args:
        request: A `TraceJob` with a source, as JSON.
        allowed_imports: Modules that the source may import.

    Returns:
        A `TraceReply` as JSON.
    """
    started = time.perf_counter()
    warnings.simplefilter("ignore")
    job = TraceJob.model_validate_json(request)
    compiler = Compiler(TARGETS[job.target], lines=job.lines)
    reply = None
    with CandidateEdge() as edge:
        reply = CandidateExecution(job, compiler, allowed_imports).run()
    reply = reply or TraceReply(**edge.ended.model_dump())
    stages_s = {"trace": time.perf_counter() - started - compiler.spent_s, "compile": compiler.spent_s}
    return reply.model_copy(update={"stages_s": stages_s}).model_dump_json().encode()
