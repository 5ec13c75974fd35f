"""Records of cells: offers to a cell, its elite, and its history."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

EMPTY_CELL = ""
"""Placeholder for an incumbent's bundle if a challenger was confirmed for an empty cell."""


class Placement(StrEnum):
    """Result of an offer.

    PROVISIONAL: it holds the cell without a confirm. STALE: the holder has changed meanwhile. WITHDRAWN: the variant
    turned out to be wrong.
    """

    NEW = "new"
    IMPROVED = "improved"
    PROVISIONAL = "provisional"
    REJECTED = "rejected"
    STALE = "stale"
    WITHDRAWN = "withdrawn"


WON = (Placement.NEW, Placement.IMPROVED)
"""Results of an offer that made an elite."""


@dataclass(frozen=True, kw_only=True)
class _Challenge:
    """Fields that an offer, an elite and an entry in a cell's history share; see `Offer`."""

    search: str
    device: str
    axes_version: int
    cell: int
    candidate: str
    variant: int
    bundle: str
    job: str
    emitter: str
    objective: float
    low: float
    mid: float
    high: float


@dataclass(frozen=True, kw_only=True)
class Offer(_Challenge):
    """A challenger for a cell.

    Attributes:
        search: The search.
        device: The archive within it.
        axes_version: Version of the axes that `cell` belongs to.
        cell: Index of the cell in the grid, row-major over the search's axes.
        coordinates: Every descriptor's value and bin: `{name: {"value": ..., "bin": ...}}`.
        candidate: The challenger.
        variant: Index of the variant.
        bundle: The variant's bundle.
        job: Id of the job whose report backs the objective; an offer is applied once per job.
        emitter: Name of the emitter that proposed it.
        objective: Figure that the archive compares; larger is better.
        low: Lower bound of the speedup.
        mid: Middle of the speedup.
        high: Upper bound of the speedup.
        incumbent: Bundle that the challenger was confirmed against, `EMPTY_CELL` if the cell was empty; None to win by
            a strictly greater objective.
    """

    coordinates: Mapping[str, Mapping[str, Any]]
    incumbent: str | None = None


@dataclass(frozen=True, kw_only=True)
class EliteRecord(_Challenge):
    """The elite of a cell. `revision` counts its cell's promotions from 1.

    `protocol_version` is that of the report of `job`, None if the archive lacks it. `compiler` names the compiler and
    the assembler of that report; empty if it names none.
    """

    coordinates: Mapping[str, Mapping[str, Any]]
    revision: int
    placed_at: datetime
    protocol_version: int | None = None
    compiler: str = ""


@dataclass(frozen=True, kw_only=True)
class ProvisionalRecord(_Challenge):
    """A challenger that holds its cell by its first measurement alone, until a confirm makes it an elite or not.

    The cell's elite, if it has one, stays on record beside it.
    """

    coordinates: Mapping[str, Mapping[str, Any]]
    placed_at: datetime


class SelectableElite(NamedTuple):
    """Fields of a cell's holder that the choice of a parent needs. `visits` counts how often its candidate was one."""

    cell: int
    candidate: str
    variant: int
    bundle: str
    objective: float
    visits: int


@dataclass(frozen=True, kw_only=True)
class PlacementRecord(_Challenge):
    """One offer in a cell's history, with any result. `seq` orders them; `revision` is None unless it won."""

    seq: int
    placement: Placement
    revision: int | None
    offered_at: datetime
