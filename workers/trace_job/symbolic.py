"""Symbolic plans of a trace, compared with the plans that it made of the same host code at many shapes.

A symbolic plan is a claim about shapes. It stands if every traced plan that it admits is equal to the one that it makes
for that shape, field by field.
"""

from dataclasses import dataclass

from pydantic import ValidationError

from workers.protocol import Plan, SymbolicPlan, TraceJob
from workers.tracer.reply import SymbolicReply


@dataclass(frozen=True)
class Compared:
    """Result of a comparison.

    Attributes:
        plans: Symbolic plans that stand, each with a shape at least.
        admitted: Number of shapes that one of them serves.
        unlike: Reason of the first difference; empty if there is none.
    """

    plans: tuple[SymbolicPlan, ...]
    admitted: int
    unlike: str = ""


def compare(reply: SymbolicReply, job: TraceJob) -> Compared:
    """Compare the symbolic plans of a reply with its plans at the job's shapes, which the first one that admits serves.

    Raises:
        ValueError: If the plans are not those of the job's shapes.
    """
    if [plan.shape for plan in reply.instances] != list(job.shapes):
        raise ValueError("the plans are not those of the job's shapes")
    wrong: dict[int, str] = {}
    admitted: dict[int, int] = {}
    for instance in reply.instances:
        index = next((at for at, plan in enumerate(reply.plans) if plan.admits(instance.shape.dims)), None)
        if index is None:
            continue
        admitted[index] = admitted.get(index, 0) + 1
        reason = difference(reply.plans[index], instance)
        if reason:
            wrong.setdefault(index, f"at {instance.shape.key}: {reason}")
    standing = [at for at in range(len(reply.plans)) if at in admitted and at not in wrong]
    return Compared(
        plans=tuple(reply.plans[at] for at in standing),
        admitted=sum(admitted[at] for at in standing),
        unlike=next(iter(wrong.values()), ""),
    )


def difference(symbolic: SymbolicPlan, traced: Plan) -> str:
    """Return the reason why a symbolic plan does not describe a traced one; empty if it does, to the last byte."""
    try:
        made, wanted = symbolic.at(traced.shape), symbolic.likened(traced)
    except ValidationError as error:
        return error.errors(include_url=False)[0]["msg"].removeprefix("Value error, ")
    except ValueError as error:
        return str(error)
    if made.model_dump_json() == wanted.model_dump_json():
        return ""
    fields = [name for name in ("buffers", "steps", "outputs") if getattr(made, name) != getattr(wanted, name)]
    return f"the {' and '.join(fields)} of the plan differ"
