"""Drawing of a candidate's lineage, generations from left to right: ancestors, the candidate, its children."""

from collections.abc import Sequence
from dataclasses import dataclass

from archive.records import Relative
from kernelreef.short_ids import brief

GENERATIONS = 8
"""Maximum number of generations shown; an ancestor's page shows older ones."""
CHILDREN = 12
"""Maximum number of children shown."""
MOST_IN_A_COLUMN = 12
"""Maximum number of candidates drawn per generation."""
STEP_X, STEP_Y = 158, 46
"""Pixels from one generation to the next, and from one candidate to the next."""
BOX_X, BOX_Y = 132, 36
"""Width and height of a candidate's box, pixels."""


@dataclass(frozen=True)
class LineageNode:
    """A candidate in the drawing; `x` and `y` are its upper left corner."""

    kin: Relative
    label: str
    x: int
    y: int


@dataclass(frozen=True)
class LineageDrawing:
    """Candidates, and lines from parents to children as SVG paths. `cut` is True if some are not drawn."""

    nodes: tuple[LineageNode, ...]
    lines: tuple[str, ...]
    width: int
    height: int
    cut: bool


def lay_out(lineage: Sequence[Relative]) -> LineageDrawing:
    """Lay out a lineage.

    Args:
        lineage: The candidate with its ancestors and children, as read from the archive.
    """
    oldest = max((kin.generation for kin in lineage), default=0)
    youngest = min((kin.generation for kin in lineage), default=0)
    columns: dict[int, list[Relative]] = {}
    for kin in sorted(lineage, key=lambda kin: kin.ordinal):
        column = columns.setdefault(kin.generation, [])
        if len(column) < MOST_IN_A_COLUMN:
            column.append(kin)
    tallest = max(map(len, columns.values()), default=1)
    nodes = {}
    for generation, column in columns.items():
        above = (tallest - len(column)) * STEP_Y // 2
        for row, kin in enumerate(column):
            x = (oldest - generation) * STEP_X + 1
            nodes[kin.id] = LineageNode(kin, f"{brief(kin.id)}", x, above + row * STEP_Y + 1)
    # A child's other parents do not belong to this lineage.
    mine = {kin.id for kin in lineage if kin.generation == 0}
    wanted = {(parent, kin.id) for kin in lineage for parent in kin.parents if kin.generation >= 0 or parent in mine}
    lines = [connect(nodes[old], nodes[new]) for old, new in sorted(wanted) if old in nodes and new in nodes]
    return LineageDrawing(
        nodes=tuple(nodes.values()),
        lines=tuple(lines),
        width=(oldest - youngest) * STEP_X + BOX_X + 2,
        height=(tallest - 1) * STEP_Y + BOX_Y + 2,
        cut=any(old not in nodes for old, _ in wanted) or len(nodes) < len(lineage),
    )


def connect(old: LineageNode, new: LineageNode) -> str:
    """Return the SVG path from a parent's box to its child's."""
    start_x, start_y = old.x + BOX_X, old.y + BOX_Y // 2
    end_x, end_y = new.x, new.y + BOX_Y // 2
    middle = (start_x + end_x) // 2
    return f"M{start_x} {start_y}C{middle} {start_y} {middle} {end_y} {end_x} {end_y}"
