"""Predicted times of a variant that is not judged: by sampled traffic, as `model` devices predict them."""

from collections.abc import Sequence
from functools import cache

from workers.devices.interpretation import InterpretationUnusable, interpret
from workers.devices.traffic import floor_of, predicted_us, raised, sampled
from workers.interpreter import warm_up
from workers.protocol import Bundle, MeasureJob, Plan, Readings
from workers.targets import TARGETS

SAMPLED_BYTES = 2 * 2**30
"""Maximum bytes of a plan's buffers for sampling its traffic; untouched memory costs address space only."""


def sampled_plans(bundle: Bundle) -> list[Plan]:
    """Return the benchmark plans whose traffic can be sampled."""
    return [plan for plan in bundle.benchmarks if sum(buffer.bytes for buffer in plan.buffers) <= SAMPLED_BYTES]


def predict_benchmarks(job: MeasureJob, readings: Sequence[Readings], limit_s: float) -> dict[str, float]:
    """Predict the times of a variant's benchmark plans. No result is looked at.

    Args:
        job: The variant, with its source and the reference graphs of the benchmark shapes.
        readings: Readings of each plan of its bundle.
        limit_s: Maximum seconds of processor time in the sandbox.

    Returns:
        Microseconds by shape; shapes whose traffic cannot be sampled are left out.

    Raises:
        InterpretationUnusable: If the interpreter cannot run the kernels; the message says why.
        SandboxFailed: If the sandbox cannot be set up.
    """
    _warm_once()
    plans, target = sampled_plans(job.bundle), TARGETS[job.bundle.target]
    reply = interpret(job, (), (), plans, limit_s).reply
    if reply.outcome is not None:
        raise InterpretationUnusable(reply.reason or reply.outcome.value)
    traffic = {plan.shape.key: metered for plan, metered in zip(plans, reply.sampled, strict=True) if metered}
    graphs, found = {graph.shape.key: graph for graph in job.graphs}, dict[str, float]()
    for plan, read in zip(job.bundle.plans, readings, strict=True):
        key = plan.shape.key
        if key in traffic and key in graphs:
            floor = floor_of(job.operator, graphs[key], plan)
            found[key] = predicted_us(raised(sampled(read, traffic[key]), floor), plan, floor, target)
    return found


@cache
def _warm_once() -> None:
    warm_up()
