"""Records of views: what pages show, without what they do not."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Mark:
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


@dataclass(frozen=True)
class Kin:
    """A candidate as a lineage draws it. `generation` is 0 for the one asked for and grows with its ancestors."""

    id: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    outcome: str | None
    objective: float | None
    generation: int = 0


@dataclass(frozen=True)
class Sighting:
    """A candidate as a list shows it: everything but its source."""

    id: str
    ordinal: int
    emitter: str
    parents: tuple[str, ...]
    note: str
    state: str
    outcome: str | None
    reason: str
    line: int | None
    objective: float | None
    created_at: datetime


@dataclass(frozen=True)
class Milestone:
    """Where a search stood on one device after a number of evaluations.

    Attributes:
        evaluations: Candidates judged by then.
        elites: Cells filled.
        qd_score: Sum of the elites' objectives.
        best: Largest objective, None while no cell was filled.
        reached_at: UTC.
    """

    evaluations: int
    elites: int
    qd_score: float
    best: float | None
    reached_at: datetime


Documents = Mapping[str, str]
"""Reports' JSON texts, by job."""
