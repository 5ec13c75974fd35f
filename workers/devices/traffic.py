"""Work of a plan's launches for a prediction: sampled, or extrapolated from another shape, and never below the floor.

A kernel must not gain by hiding its work at a benchmark shape from the interpreter. Unseen work grows as the reference
does, and work that no kernel can avoid is added where it was not seen.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workers.floors import floor_bytes, floor_flops
from workers.interpreter import MeteredTraffic
from workers.predict import MATRIX_SHARE, predict_us
from workers.protocol import DTYPE_BYTES, Copy, Fill, Graph, LaunchReadings, Operator, Plan, Readings, View
from workers.targets import Target


@dataclass(frozen=True)
class ExecutedTraffic:
    """Work of a variant at a shape that was executed completely.

    Attributes:
        done: Work of all launches together.
        required_bytes: Bytes of the inputs and outputs, once each.
        graph: The reference at that shape.
    """

    done: MeteredTraffic
    required_bytes: int
    graph: Graph


@dataclass(frozen=True)
class TrafficFloor:
    """Work of every kernel at a shape.

    Attributes:
        moved_bytes: Bytes read and written.
        launched_bytes: Those of them that this plan's fills and copies do not move.
        flops: Operations of matrix products.
    """

    moved_bytes: int
    launched_bytes: int
    flops: float

    def time_us(self, target: Target) -> float:
        """Return the time at the peak rates of a target, microseconds."""
        return max(self.moved_bytes / target.dram_bytes_per_s, self.flops / target.matrix_flops) * 1e6


def floor_of(operator: Operator, graph: Graph, plan: Plan) -> TrafficFloor:
    """Return the floor of a plan at its shape."""
    moved = floor_bytes(operator, graph) + _written_bytes(plan)
    return TrafficFloor(moved, max(0, moved - sum(other_steps(plan))), floor_flops(operator, graph))


def other_steps(plan: Plan) -> list[int]:
    """Return the bytes that each fill and each copy of a plan moves."""
    moved = []
    for step in plan.steps:
        if isinstance(step, Fill):
            moved.append(_bytes(step.target))
        elif isinstance(step, Copy):
            moved.append(_bytes(step.source) + _bytes(step.target))
    return moved


def sampled(readings: Readings, metered: Sequence[MeteredTraffic]) -> Readings:
    """Return readings with the interpreter's metered work of each launch."""
    launches = tuple(
        launch.model_copy(update={"bytes_moved": done.moved_bytes, "operations": _operations(done)})
        for launch, done in zip(readings.by_launch, metered, strict=True)
    )
    moved = sum(done.moved_bytes for done in metered)
    return readings.model_copy(update={"bytes_moved": moved, "by_launch": launches})


def extrapolated(readings: Readings, executed: ExecutedTraffic, graph: Graph) -> Readings:
    """Return readings with a variant's work at another shape, scaled by the growth of the reference.

    Products belong to the launches that use a matrix unit. If none were executed and the reference has some, all of the
    reference's count.

    Args:
        readings: Readings of the plan.
        executed: Work at another shape.
        graph: The reference at the plan's shape.
    """
    done, known = executed.done, executed.graph
    by_bytes = (readings.bytes_required or 0) / max(1, executed.required_bytes)
    by_products = _growth(graph.matrix_flops, known.matrix_flops)
    moved = done.moved_bytes * max(by_bytes, by_products)
    often = max(by_bytes, by_products, _growth(graph.other_flops, known.other_flops))
    matrix = done.dot_operations * often or (graph.matrix_flops or 0.0)
    grown = {"float": done.float_operations * often, "special": done.special_operations * often}
    launches = _spread(readings.by_launch, grown, lambda launch: True)
    units = _units(launches)
    launches = _spread(launches, {"matrix": matrix}, lambda launch: launch.tensor_core in units)
    return readings.model_copy(update={"bytes_moved": round(moved), "by_launch": launches})


def raised(readings: Readings, floor: TrafficFloor) -> Readings:
    """Return readings whose launches move and multiply at least as much as the floor.

    Missing products are added where the slowest of the matrix units is used. If there is none, a multiplied element
    counts for two operations of a product, as sums are not counted.
    """
    launches, known = readings.by_launch, readings.bytes_moved or 0
    missing_bytes = max(0, floor.launched_bytes - known)
    unit = min(_units(launches), key=lambda name: MATRIX_SHARE[name or "none"], default=None)
    done = sum(launch.operations.get("matrix", 0) for launch in launches)
    if unit in (None, "none"):
        done += 2 * sum(launch.operations.get("float", 0) for launch in launches)
    launches = _spread(launches, {"matrix": max(0.0, floor.flops - done)}, lambda launch: launch.tensor_core == unit)
    launches = tuple(
        launch
        if launch.bytes_moved is None
        else launch.model_copy(update={"bytes_moved": launch.bytes_moved + round(missing_bytes * share)})
        for launch, share in zip(launches, _shares(launches, lambda launch: True), strict=True)
    )
    return readings.model_copy(update={"bytes_moved": known + missing_bytes, "by_launch": launches})


def predicted_us(readings: Readings, plan: Plan, floor: TrafficFloor, target: Target) -> float:
    """Predict the time of a plan's call from its readings, microseconds, and no less than the floor at peak rates."""
    steps = other_steps(plan)
    return max(predict_us(readings, target, other_steps=len(steps), other_bytes=sum(steps)), floor.time_us(target))


def _spread(
    launches: Sequence[LaunchReadings], operations: dict[str, float], chosen: Callable[[LaunchReadings], bool]
) -> tuple[LaunchReadings, ...]:
    """Return launches with more operations, by their threads."""
    return tuple(
        launch.model_copy(
            update={
                "operations": launch.operations
                | {name: launch.operations.get(name, 0) + round(count * share) for name, count in operations.items()}
            }
        )
        for launch, share in zip(launches, _shares(launches, chosen), strict=True)
    )


def _shares(launches: Sequence[LaunchReadings], chosen: Callable[[LaunchReadings], bool]) -> list[float]:
    threads = [launch.programs * launch.num_warps if chosen(launch) else 0 for launch in launches]
    return [each / max(1, sum(threads)) for each in threads]


def _units(launches: Sequence[LaunchReadings]) -> set[str | None]:
    """Return the matrix units that any launch uses; the launches' own values if none does."""
    found: set[str | None] = {launch.tensor_core for launch in launches}
    return found - {None, "none"} or found


def _growth(here: float | None, there: float | None) -> float:
    return here / there if here and there else 0.0


def _operations(done: MeteredTraffic) -> dict[str, int]:
    return {"matrix": done.dot_operations, "float": done.float_operations, "special": done.special_operations}


def _written_bytes(plan: Plan) -> int:
    """Return bytes of the results, except those in an input."""
    written: dict[int, int] = {}
    for view in plan.outputs:
        written[view.buffer] = written.get(view.buffer, 0) + _bytes(view)
    buffers = {buffer.id: buffer for buffer in plan.buffers}
    return sum(min(size, buffers[number].bytes) for number, size in written.items() if buffers[number].input is None)


def _bytes(view: View) -> int:
    return view.elements * DTYPE_BYTES[view.dtype]
