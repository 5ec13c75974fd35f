"""Records of attempts: the results of one emitter's candidates, for the choice between models."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Attempt:
    """A candidate without its text.

    `outcome` is None before its verdict, `objective` None unless it is correct, `exchange` None if it is unknown.
    """

    id: str
    parents: tuple[str, ...]
    note: str
    outcome: str | None
    objective: float | None
    exchange: str | None = None


@dataclass(frozen=True)
class OfferOutcome:
    """An offer to a cell.

    `gain` is the increase of the sum of the elites' objectives; None unless it won the cell. `filled` is True if the
    cell was empty before.
    """

    candidate: str
    device: str
    cell: int
    gain: float | None
    filled: bool = False


@dataclass(frozen=True)
class CandidateVerdict:
    """Verdict on a candidate: the outcome of its best variant, and its objectives as in `Candidate`."""

    candidate: str
    outcome: str
    reason: str
    line: int | None
    objective: float | None
    objectives: Mapping[str, float] = field(default_factory=dict)
