"""The policy socket: which elite becomes a parent, one way of choosing a file.

A policy is a pure function of the elites, of what is known of their cells, and of a source of chance.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Generic, TypeVar

from archive.grid import Grid
from archive.records import EliteRecord, SelectableElite

Held = TypeVar("Held", EliteRecord, SelectableElite)
"""The holder of a cell, whole or as much of it as matters here."""


@dataclass(frozen=True)
class CellContext:
    """Facts about the elites' cells.

    Attributes:
        visits: By cell, how often its present holder was a parent; a cell left out counts as never visited.
        grid: In which the cells lie; None where nobody asks for neighbours.
    """

    visits: Mapping[int, int] = field(default_factory=dict)
    grid: Grid | None = None


@dataclass(frozen=True)
class ParentChoice(Generic[Held]):
    """A parent, and the empty cell that its child should reach, if the policy aims at one."""

    parent: Held
    aim: int | None = None


class SelectionPolicy(ABC):
    """One way to choose a parent.

    Attributes:
        name: What reports call it; also its key in the table.
        meaning: One line for a person.
    """

    name: ClassVar[str]
    meaning: ClassVar[str]

    @abstractmethod
    def choose(self, elites: Sequence[Held], around: CellContext, rng: random.Random) -> ParentChoice[Held]:
        """Choose among at least one elite, of which no two have one cell."""
