"""Seeds by TorchInductor: its Triton for an operator's reference, as a candidate that launches itself.

Runs inside the jail, in a process of its own, on machines with no card too. `lowering` has Inductor write,
`spelling`, `tidying` and `naming` make its kernels readable, `writing` puts the candidate together. What comes out is a
candidate like any other: the judge says whether it is right.
"""

import warnings

from workers.inductor_seeds.candidate import write
from workers.inductor_seeds.lowering import lower
from workers.protocol import TraceJob
from workers.targets import TARGETS
from workers.tracer.execution import CandidateEdge
from workers.tracer.reply import WrittenSeed

__all__ = ["draft"]


def draft(request: bytes) -> bytes:
    """Write a seed for the operator of a `TraceJob` that has no source. Takes this process over for good.

    Returns:
        A `reply.Written` as JSON.
    """
    warnings.simplefilter("ignore")
    job = TraceJob.model_validate_json(request)
    source = ""
    with CandidateEdge() as edge:
        source = write(job.operator, lower(job.operator, TARGETS[job.target]))
    return WrittenSeed(source=source, **edge.ended.model_dump()).model_dump_json().encode()
