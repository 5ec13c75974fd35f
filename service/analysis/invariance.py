"""Whether the axes of a grid keep still when a kernel is merely written differently, tried on kernels of a search."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from archive.descriptors import DESCRIPTORS, coordinates
from service.evaluation.executor_client import LocalExecutor
from service.operators.rewording import reword
from workers.protocol import Operator, Shape, ShapeRole, TraceJob, TraceReport

HERE = "invariance"
"""What jobs carry where a search's would carry ids."""


@dataclass(frozen=True)
class TracedPosition:
    """One variant as it was traced: where it lies on each axis, and the identity of its bundle."""

    coordinates: Mapping[str, dict[str, Any]]
    identity: str


class AxisMove(BaseModel):
    """A variant of a candidate that lies elsewhere on an axis once it is written differently.

    `before` and `after` are its value and bin there; None where what the axis needs is not known.
    """

    candidate: str
    variant: int
    before: dict[str, int | float] | None
    after: dict[str, int | float] | None


class Invariance(BaseModel):
    """What writing candidates differently moved.

    `compared` candidates were traced as they are and with other names, layout and no comments; of these `equal` came to
    the same machine code throughout. `moved` has every axis: nothing should be moved on any. `skipped` says why others
    could not be compared.
    """

    compared: int = 0
    equal: int = 0
    moved: dict[str, list[AxisMove]] = {}
    skipped: dict[str, str] = {}


class Untraced(Exception):
    """A source came to nothing that could be compared; `str` says why, for people."""


async def check_invariance(
    operator: Operator, shapes: Sequence[Shape], target: str, sources: Mapping[str, str], tracer: LocalExecutor
) -> Invariance:
    """Trace candidates twice for the first benchmark shape: as they are, and written differently.

    Args:
        operator: What they compute.
        shapes: Of their search.
        target: What to compile for.
        sources: Candidates' texts by id.
        tracer: A bench that traces.

    Raises:
        ServiceError: If the bench failed.
    """
    job = TraceJob(id=HERE, search=HERE, candidate=HERE, operator=operator, shapes=_first(shapes), target=target)
    found = Invariance(moved={name: [] for name in DESCRIPTORS})
    for candidate, source in sources.items():
        try:
            before = await _trace(job, source, tracer)
            after = await _trace(job, reword(source), tracer)
        except (Untraced, SyntaxError) as reason:
            found.skipped[candidate] = str(reason)
            continue
        if before.keys() != after.keys():
            found.skipped[candidate] = f"it has {len(before)} variants, and {len(after)} written differently"
            continue
        found.compared += 1
        found.equal += all(before[index].identity == after[index].identity for index in before)
        for index, place in before.items():
            _compare(found, candidate, index, place, after[index])
    return found


def _first(shapes: Sequence[Shape]) -> tuple[Shape]:
    """The shape that coordinates are about."""
    return (next(shape for shape in shapes if shape.role is ShapeRole.BENCHMARK),)


async def _trace(job: TraceJob, source: str, tracer: LocalExecutor) -> Mapping[int, TracedPosition]:
    """Where each variant of a source lies, by index."""
    report = await tracer.run(job.model_copy(update={"source": source}), TraceReport)
    found = {
        variant.index: TracedPosition(coordinates(variant.readings[0].model_dump(mode="json")), variant.bundle.identity)
        for variant in report.variants
        if variant.bundle is not None
    }
    if not found:
        failed = next(iter(report.variants), report)
        raise Untraced(f"{failed.outcome.value}: {failed.reason}")
    return found


def _compare(found: Invariance, candidate: str, variant: int, before: TracedPosition, after: TracedPosition) -> None:
    for name, moves in found.moved.items():
        then, now = before.coordinates.get(name), after.coordinates.get(name)
        if then != now:
            moves.append(AxisMove(candidate=candidate, variant=variant, before=then, after=now))
