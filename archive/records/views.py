"""Records of views: only the fields that pages show."""

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
    """All cells of a grid at one place of a map: bins of two axes, number of filled cells, best elite."""

    x: int
    y: int
    held: int
    mark: EliteSummary


@dataclass(frozen=True)
class Relative:
    """A candidate as a lineage draws it.

    `generation` is 0 for the requested candidate, 1 for its parents and so on, and -1 for its children.
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
class SearchResult:
    """Result of a search so far: its evaluations, and the largest objective per device with an elite."""

    evaluated: int
    best: Mapping[str, float]


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
        evaluations: Number of candidates evaluated by then.
        elites: Number of filled cells.
        qd_score: Sum of the elites' objectives.
        best: Largest objective; None while no cell was filled.
        usd: US dollars spent or reserved for models; None if the search had asked none.
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
    """A version that changes with everything shown of a search: equal versions mean that nothing has changed.

    Attributes:
        search: Id of the search.
        asks: True if it asks models; their cost changes without this version.
        updated_at: Time of its last change of state or budget.
        tallied: Sum of all event counts of its candidates.
        landed: Sum of the last offers' numbers, one per emitter.
        traced: Number of candidates that were traced and have no verdict yet.
    """

    search: str
    asks: bool
    updated_at: datetime
    tallied: int
    landed: int
    traced: int


Documents = Mapping[str, str]
"""Reports' JSON texts, by job."""
