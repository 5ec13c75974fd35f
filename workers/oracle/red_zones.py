"""Red zones: writes outside the buffers of a run, and between which of its buffers."""

from collections.abc import Sequence

from workers.oracle.base import OracleCard, PlanRun
from workers.protocol import Operator


def describe_damage(card: OracleCard, operator: Operator, runs: Sequence[PlanRun], seed: str) -> str | None:
    """Describe the damage around the buffers of runs; None if there is none. `seed` is that of the zones' pattern."""
    if not card.damaged_bytes([zone for run in runs for zone in run.slot.zones], seed):
        return None
    for run in runs:
        for zone in run.slot.zones:
            if count := card.damaged_bytes([zone], seed):
                return _describe(card, operator, run, zone, count, seed)
    return "bytes outside its buffers are changed"


def _describe(card: OracleCard, operator: Operator, run: PlanRun, zone: tuple[int, int], count: int, seed: str) -> str:
    """Name the buffer that the damage is before or after, by the half of the zone with the damage."""
    start, size = zone
    half = size // 2
    neighbours = _neighbours(operator, run, zone)
    first = 2 * card.damaged_bytes([(start, half)], seed) >= count
    place = neighbours[0 if first else 1] or neighbours[1 if first else 0] or "far from any buffer"
    return f"it writes {count} bytes outside its buffers, {place} ({run.plan.shape.key}): mask its stores"


def _neighbours(operator: Operator, run: PlanRun, zone: tuple[int, int]) -> tuple[str, str]:
    """Return the buffers that end where the zone starts and start where it ends; empty for scratch or nothing."""
    start, end = zone[0], sum(zone)
    after = before = ""
    for buffer, offset in zip(run.plan.buffers, run.slot.buffers, strict=True):
        if offset + buffer.bytes == start:
            after = f"after the end of {_name(operator, run, buffer.id)}"
        if offset == end:
            before = f"before the start of {_name(operator, run, buffer.id)}"
    return after, before


def _name(operator: Operator, run: PlanRun, buffer: int) -> str:
    if buffer < len(operator.given):
        return f"input '{operator.given[buffer].name}'"
    for output, view in zip(operator.results, run.plan.outputs, strict=False):
        if view.buffer == buffer:
            return f"output '{output.name}'"
    return f"buffer {buffer}"
