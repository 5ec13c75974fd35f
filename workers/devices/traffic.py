"""What the launches of a plan do, for a prediction: as sampled, or executed at another shape, and no less than needed.

Whoever keeps the interpreter from seeing what a kernel does at a benchmark shape must not gain by it: what is not seen
is taken to grow as the reference does, and what no kernel can leave out is added where it was not seen.
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
    """What a variant did at a shape that was executed as a whole.

    Attributes:
        done: In all launches together.
        required_bytes: Inputs once and outputs once.
        graph: The reference at that shape.
    """

    done: MeteredTraffic
    required_bytes: int
    graph: Graph


@dataclass(frozen=True)
class TrafficFloor:
    """What every kernel does at a shape, whatever it is like.

    Attributes:
        moved_bytes: Read and written.
        launched_bytes: Those that fills and copies of this plan do not move.
        flops: Of matrix products.
    """

    moved_bytes: int
    launched_bytes: int
    flops: float

    def time_us(self, target: Target) -> float:
        """What that takes at the peak rates of a target."""
        return max(self.moved_bytes / target.dram_bytes_per_s, self.flops / target.matrix_flops) * 1e6


def floor_of(operator: Operator, graph: Graph, plan: Plan) -> TrafficFloor:
    """The floor of a plan at its shape."""
    moved = floor_bytes(operator, graph) + _written_bytes(plan)
    return TrafficFloor(moved, max(0, moved - sum(other_steps(plan))), floor_flops(operator, graph))


def other_steps(plan: Plan) -> list[int]:
    """Bytes that each fill and each copy of a plan moves."""
    moved = []
    for step in plan.steps:
        if isinstance(step, Fill):
            moved.append(_bytes(step.target))
        elif isinstance(step, Copy):
            moved.append(_bytes(step.source) + _bytes(step.target))
    return moved


def sampled(readings: Readings, metered: Sequence[MeteredTraffic]) -> Readings:
    """Readings with what the interpreter metered of each launch."""
    launches = tuple(
        launch.model_copy(update={"bytes_moved": done.moved_bytes, "operations": _operations(done)})
        for launch, done in zip(readings.by_launch, metered, strict=True)
    )
    moved = sum(done.moved_bytes for done in metered)
    return readings.model_copy(update={"bytes_moved": moved, "by_launch": launches})


def extrapolated(readings: Readings, executed: ExecutedTraffic, graph: Graph) -> Readings:
    """Readings with what a variant did at another shape, grown as the reference grows.

    Products are those of the launches that use a matrix unit. Where none were executed and the reference has some,
    they are all of its own.

    Args:
        readings: Of the plan.
        executed: At another shape.
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
    """Readings whose launches move no less and multiply no less than the floor says.

    Products that are missing are added where the slowest of the matrix units is used. Where none is, an element that is
    multiplied counts for two operations of a product, as sums are not counted.
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
    """What a call of a plan takes by its readings, microseconds, and no less than the floor at peak rates."""
    steps = other_steps(plan)
    return max(predict_us(readings, target, other_steps=len(steps), other_bytes=sum(steps)), floor.time_us(target))


def _spread(
    launches: Sequence[LaunchReadings], operations: dict[str, float], chosen: Callable[[LaunchReadings], bool]
) -> tuple[LaunchReadings, ...]:
    """Launches with more operations, by their threads."""
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
    """With what products are done: the matrix units that any launch uses, or what there is if none does."""
    found: set[str | None] = {launch.tensor_core for launch in launches}
    return found - {None, "none"} or found


def _growth(here: float | None, there: float | None) -> float:
    return here / there if here and there else 0.0


def _operations(done: MeteredTraffic) -> dict[str, int]:
    return {"matrix": done.dot_operations, "float": done.float_operations, "special": done.special_operations}


def _written_bytes(plan: Plan) -> int:
    """Bytes of the results, but for those that are in an input."""
    written: dict[int, int] = {}
    for view in plan.outputs:
        written[view.buffer] = written.get(view.buffer, 0) + _bytes(view)
    buffers = {buffer.id: buffer for buffer in plan.buffers}
    return sum(min(size, buffers[number].bytes) for number, size in written.items() if buffers[number].input is None)


def _bytes(view: View) -> int:
    return view.elements * DTYPE_BYTES[view.dtype]
