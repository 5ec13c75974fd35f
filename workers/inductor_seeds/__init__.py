"""Seeds by TorchInductor: its Triton kernels for an operator's reference, as a candidate that launches them.

Runs inside the sandbox, in its own process, also on machines without a card. `lowering` runs Inductor, `runtime`,
`simplification` and `naming` make its kernels readable, `candidate` assembles the candidate. The seed is judged like
any other candidate.
"""

import warnings

from workers.inductor_seeds.candidate import write
from workers.inductor_seeds.fixed_sizes import at_first_shape, chosen_by_sizes
from workers.inductor_seeds.lowering import lower
from workers.inductor_seeds.optional import joined, variants_of
from workers.protocol import MAX_SOURCE_BYTES, Outcome, TraceJob
from workers.targets import TARGETS
from workers.tracer.execution import CandidateEdge
from workers.tracer.refusal import TraceRefused
from workers.tracer.reply import WrittenSeed

__all__ = ["draft"]


def draft(request: bytes) -> bytes:
    """Write a seed for the operator of a `TraceJob` without a source. The process cannot be reused afterwards.

    Returns:
        A `WrittenSeed` as JSON.
    """
    warnings.simplefilter("ignore")
    job = TraceJob.model_validate_json(request)
    source = ""
    with CandidateEdge() as edge:
        variants = list(variants_of(job.operator)) if job.operator.presences else []
        written = [each.operator for each in variants] or [job.operator]
        lowered = [lower(operator, TARGETS[job.target]) for operator in written]
        sources = [write(operator, each) for operator, each in zip(written, lowered, strict=True)]
        text = joined(job.operator, variants, sources) if variants else sources[0]
        text = _for_first_shape(job, text, len(lowered[0].kernels))
        if len(text) > MAX_SOURCE_BYTES:
            raise TraceRefused(
                Outcome.FORBIDDEN_OP,
                f"TorchInductor's kernels for it have {len(text)} characters; a candidate has at most "
                f"{MAX_SOURCE_BYTES}",
            )
        source = text
    return WrittenSeed(source=source, **edge.ended.model_dump()).model_dump_json().encode()


def _for_first_shape(job: TraceJob, source: str, kernels: int) -> str:
    """Add kernels for an operator's first shape to a seed; returns the seed as it is if there are none."""
    fixed = at_first_shape(job.operator, kernels)
    if fixed is None:
        return source
    both = ""
    with CandidateEdge():
        both = chosen_by_sizes(job.operator, source, fixed, write(fixed, lower(fixed, TARGETS[job.target])))
    return both if 0 < len(both) <= MAX_SOURCE_BYTES else source
