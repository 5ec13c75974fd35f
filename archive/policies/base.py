"""The policy socket: one rule per file for choosing which elite becomes a parent.

A policy is a pure function of the elites, the facts about their cells, and a random generator.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from archive.grid import Grid
from archive.records import EliteRecord, ProvisionalRecord, SelectableElite

Held = TypeVar("Held", EliteRecord, ProvisionalRecord, SelectableElite)
"""The holder of a cell: a whole record, or only the fields that selection needs."""


@dataclass(frozen=True)
class CellContext:
    """Facts about the elites' cells.

    Attributes:
        visits: Number of times that a cell's present holder was a parent, by cell; a missing cell has none.
        grid: The grid of the cells; None if no neighbours are needed.
    """

    visits: Mapping[int, int] = field(default_factory=dict)
    grid: Grid | None = None


@dataclass(frozen=True)
class ParentChoice(Generic[Held]):
    """A parent, and the empty cell that its child should reach, if the policy targets one."""

    parent: Held
    aim: int | None = None


class SelectionPolicy(ABC):
    """One way to choose a parent.

    Attributes:
        name: Name in reports; also its key in the table.
        meaning: Description in one line.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]

    @abstractmethod
    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Choose one of the elites: at least one, each in a cell of its own."""
