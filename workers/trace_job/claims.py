"""Claims of a trace about a candidate, checked against the operator's spec. None is trusted.

The plan's own types already bound every size and keep every view and pointer inside its buffer. The checks here need
the operator and the job.
"""

from collections.abc import Callable, Iterator, Mapping
from math import prod

from workers.protocol import (
    DTYPE_BYTES,
    Allocate,
    Bundle,
    Copy,
    Fill,
    Launch,
    Operator,
    Outcome,
    Plan,
    Shape,
    TraceJob,
    View,
)
from workers.targets import TARGETS
from workers.trace_job.overlap import OverlapUndecided, share_bytes, shares_with_itself


class UnfoundedClaim(Exception):
    """A claim that does not hold.

    Attributes:
        outcome: Outcome of the candidate.
        reason: A sentence that a person or an LLM can act on.
    """

    def __init__(self, reason: str, outcome: Outcome = Outcome.PLAN_REJECTED) -> None:
        super().__init__(reason)
        self.reason = reason
        self.outcome = outcome


def check_bundle(bundle: Bundle, job: TraceJob, claims: "Mapping[str, Claim] | None" = None) -> None:
    """Check a bundle against its job.

    Args:
        bundle: The bundle that the trace claims.
        job: The job.
        claims: Checks to make; all of `CLAIMS` if None.

    Raises:
        UnfoundedClaim: At the first claim that does not hold.
    """
    for digest, kernel in bundle.kernels.items():
        if kernel.digest != digest or kernel.target != job.target:
            raise UnfoundedClaim(f"kernel {digest[:12]} does not match its digest or target")
    if [plan.shape for plan in bundle.plans] != list(job.shapes):
        raise UnfoundedClaim("the plans are not those of the job's shapes")
    for plan in bundle.plans:
        for claim in (CLAIMS if claims is None else claims).values():
            claim(plan, job)


def _check_inputs(plan: Plan, job: TraceJob) -> None:
    """Require that input buffers come first and have the sizes of the spec."""
    operator = job.operator
    claimed = [(buffer.input, buffer.bytes) for buffer in plan.buffers[: len(operator.given)]]
    if claimed != list(enumerate(_input_bytes(operator, plan.shape))):
        raise UnfoundedClaim(f"the input buffers for {plan.shape.key} are not those of the operator")
    if any(buffer.input is not None for buffer in plan.buffers[len(operator.given) :]):
        raise UnfoundedClaim("a buffer beyond the inputs claims to be one")


def _input_bytes(operator: Operator, shape: Shape) -> Iterator[int]:
    for item in operator.given:
        yield prod(operator.input_shape(item, shape.dims)) * DTYPE_BYTES[item.dtype]


def _check_memory(plan: Plan, job: TraceJob) -> None:
    memory_bytes = TARGETS[job.target].memory_bytes
    total = sum(buffer.bytes for buffer in plan.buffers)
    if total > memory_bytes:
        raise UnfoundedClaim(f"needs {total} bytes for {plan.shape.key}; the target's card has {memory_bytes}")


def _check_launched(plan: Plan, job: TraceJob) -> None:
    if not plan.launches and not job.operator.is_empty(plan.shape.dims):
        raise UnfoundedClaim("launches no kernel")


def _check_steps(plan: Plan, job: TraceJob) -> None:
    live = {buffer.id for buffer in plan.buffers if buffer.input is not None}
    for step in plan.steps:
        if isinstance(step, Allocate):
            if step.buffer in live or step.buffer >= len(plan.buffers):
                raise UnfoundedClaim(f"buffer {step.buffer} is allocated twice or not at all")
            live.add(step.buffer)
        elif not {*_read_by(step), *_written_by(step)} <= live:
            raise UnfoundedClaim("a step uses a buffer before it is allocated")


def _check_copies(plan: Plan, job: TraceJob) -> None:
    for step in plan.steps:
        if isinstance(step, Copy):
            if job.operator.policy.host != "copy":
                raise UnfoundedClaim(
                    "copies a tensor, which the operator's policy does not allow", Outcome.FORBIDDEN_OP
                )
            if step.source.shape != step.target.shape:
                raise UnfoundedClaim("copies between tensors of different shapes")


def _check_output_types(plan: Plan, job: TraceJob) -> None:
    if [view.dtype for view in plan.outputs] != [output.dtype for output in job.operator.results]:
        raise UnfoundedClaim("the outputs are not of the operator's number and dtypes", Outcome.WRONG_OUTPUT_TYPE)


def _check_own_memory(plan: Plan, job: TraceJob) -> None:
    inputs = job.operator.given
    for view, output in zip(plan.outputs, job.operator.results, strict=False):
        source = plan.buffers[view.buffer].input
        if source is not None and not inputs[source].mutable:
            raise UnfoundedClaim(f"output '{output.name}' is memory of input '{inputs[source].name}'")
        if source is not None and not _is_whole(view, plan.buffers[view.buffer].bytes):
            raise UnfoundedClaim(f"output '{output.name}' is a part of input '{inputs[source].name}': allocate it")
    for number, position in job.operator.in_place.items():
        if number < len(plan.outputs) and plan.buffers[plan.outputs[number].buffer].input != position:
            name = inputs[position].name
            raise UnfoundedClaim(f"output '{name}' is the content of input '{name}', and this is other memory")


def _is_whole(view: View, size_bytes: int) -> bool:
    """Return True if a view has every byte of a buffer, in order."""
    wanted = (prod(view.shape[axis + 1 :]) for axis in range(len(view.shape)))
    dense = all(one == other for size, one, other in zip(view.shape, view.strides, wanted, strict=True) if size > 1)
    return dense and view.offset_bytes == 0 and view.elements * DTYPE_BYTES[view.dtype] == size_bytes


def _check_written(plan: Plan, job: TraceJob) -> None:
    written = {buffer for step in plan.steps for buffer in _written_by(step)}
    # Without elements there is nothing to write: not in a result, and not in the content of another input.
    spared = set(job.operator.in_place) if job.operator.is_empty(plan.shape.dims) else set[int]()
    for number, (view, output) in enumerate(zip(plan.outputs, job.operator.results, strict=False)):
        if view.buffer not in written and view.elements and number not in spared:
            raise UnfoundedClaim(f"nothing writes output '{output.name}': no launch or fill is given its memory")


def _check_apart(plan: Plan, job: TraceJob) -> None:
    """Require that no two elements of outputs share memory."""
    for index, (view, output) in enumerate(zip(plan.outputs, job.operator.results, strict=False)):
        try:
            if any(share_bytes(view, other) for other in plan.outputs[:index]):
                raise UnfoundedClaim(f"output '{output.name}' shares memory with another output")
            if shares_with_itself(view):
                raise UnfoundedClaim(
                    f"elements of output '{output.name}' share memory: return a tensor that was not expanded"
                )
        except OverlapUndecided:
            undecided = f"the strides of output '{output.name}' are too complex to rule out shared memory"
            raise UnfoundedClaim(f"{undecided}: return plain tensors") from None


Claim = Callable[[Plan, TraceJob], None]
"""Check of one claim of a plan against the job; raises `UnfoundedClaim`."""

CLAIMS: dict[str, Claim] = {
    "inputs": _check_inputs,
    "memory": _check_memory,
    "launched": _check_launched,
    "steps": _check_steps,
    "copies": _check_copies,
    "output_types": _check_output_types,
    "own_memory": _check_own_memory,
    "written": _check_written,
    "apart": _check_apart,
}
"""Checks of claims, in order. Only tests remove one, to show that the rogue it stops passes without it."""


def _read_by(step: Allocate | Fill | Copy | Launch) -> Iterator[int]:
    if isinstance(step, Copy):
        yield step.source.buffer


def _written_by(step: Allocate | Fill | Copy | Launch) -> Iterator[int]:
    """Yield the buffers that a step may write; a launch may write through any of its pointers and descriptors."""
    if isinstance(step, Fill | Copy):
        yield step.target.buffer
    elif isinstance(step, Launch):
        yield from (argument.buffer for argument in step.memory)
