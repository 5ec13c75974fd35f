"""Records of views: what pages show, without what they do not."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class EliteSummary:
    """An elite as a map draws it: everything but its coordinates, its bundle and its job."""

    cell: int
    candidate: str
    variant: int
    emitter: str
    objective: float
    low: float
    mid: float
    high: float
    revision: int
    placed_at: datetime
    protocol_version: int | None = None


@dataclass(frozen=True)
class AxisStride:
    """Stride of an axis in a cell's index: its bin is `cell // stride % bins`."""

    stride: int
    bins: int


@dataclass(frozen=True)
class MapCell:
    """All cells of a grid that fall on one place of a map: the bins of two axes, how many are held, and the best."""

    x: int
    y: int
    held: int
    mark: EliteSummary


@dataclass(frozen=True)
class Relative:
    """A candidate as a lineage draws it.

    `generation` is 0 for the one asked for, grows with its ancestors, and is -1 for its children.
    """

    id: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    outcome: str | None
    objectives: Mapping[str, float]
    generation: int = 0


@dataclass(frozen=True)
class CandidateRow:
    """A candidate as a list shows it: everything but its source."""

    id: str
    search: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    state: str
    outcome: str | None
    reason: str
    line: int | None
    objective: float | None
    objectives: Mapping[str, float]
    created_at: datetime


@dataclass(frozen=True)
class Milestone:
    """Progress of a search on one device after a number of evaluations.

    Attributes:
        evaluations: Candidates judged by then.
        elites: Cells filled.
        qd_score: Sum of the elites' objectives.
        best: Largest objective, None while no cell was filled.
        usd: US dollars that models had cost, or were to cost at most; None where the search had asked none.
        reached_at: UTC.
    """

    evaluations: int
    elites: int
    qd_score: float
    best: float | None
    usd: float | None
    reached_at: datetime


@dataclass(frozen=True)
class SearchVersion:
    """Changes whenever anything does that is told of a search: two that are equal are of the same search, unchanged.

    Attributes:
        search: Which search.
        asks: Whether it asks models; what those cost changes without this.
        updated_at: When it entered its state or was given another budget.
        tallied: Everything that was counted of its candidates.
        landed: By emitter, the last of its offers; their sum.
        traced: Candidates that were traced and have no verdict yet.
    """

    search: str
    asks: bool
    updated_at: datetime
    tallied: int
    landed: int
    traced: int


Documents = Mapping[str, str]
"""Reports' JSON texts, by job."""
