"""The emitter socket: where candidates come from.

An emitter turns a brief into a proposal. It sees plain values only: no storage, no queue. It holds no state, so a
killed search continues exactly: whatever it learns must be read from the brief.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar


@dataclass(frozen=True)
class Parent:
    """A candidate to start from, with what the judge knows of it.

    Attributes:
        candidate: Its id; empty for the operator's seed kernel.
        source: Its text.
        configuration: The autotune choice of the variant that holds the cell.
        objective: Of the variant; None for a kernel not judged yet.
        cell: Its cell, None if it holds none.
        readings: Of the first benchmark shape.
    """

    candidate: str
    source: str
    configuration: Mapping[str, Any] = field(default_factory=dict)
    objective: float | None = None
    cell: int | None = None
    readings: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """A judged proposal of the same emitter.

    Attributes:
        note: What was tried, as in its proposal.
        outcome: What came of it (`workers.protocol.Outcome`).
        objective: If it was correct.
        parents: Ids of what it was made from; empty where that is not known.
    """

    note: str
    outcome: str
    objective: float | None
    parents: tuple[str, ...] = ()


@dataclass(frozen=True)
class Brief:
    """What an emitter knows when it proposes.

    Attributes:
        operator: The operator as a JSON object (`workers.protocol.Operator`).
        target: What the candidate will be compiled for, such as `sm_90`.
        parents: At least `arity` of them, the chosen one first.
        trials: Recent trials of this emitter in this search, newest first.
        rng: The only source of chance; seeded from the search's seed and the proposal's ordinal.
    """

    operator: Mapping[str, Any]
    target: str
    parents: tuple[Parent, ...]
    trials: tuple[Trial, ...]
    rng: random.Random


@dataclass(frozen=True)
class Proposal:
    """A candidate's text. `parents` are ids; `note` says in words what was tried, canonical per kind of move."""

    source: str
    parents: tuple[str, ...]
    note: str


class Emitter(ABC):
    """Proposes candidates.

    Attributes:
        name: What specs call it; also its key in the table.
        arity: How many parents it needs.
    """

    name: ClassVar[str]
    arity: ClassVar[int] = 1

    @abstractmethod
    async def propose(self, brief: Brief) -> Proposal | None:
        """Propose one candidate, or None if nothing can be made of these parents."""
