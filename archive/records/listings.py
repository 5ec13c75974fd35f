"""Records of lists: filters, orders, and one page of items."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from kernelreef.states import CandidateState, SearchState

Item = TypeVar("Item")

SortKey = tuple[int | float | str, ...]
"""Place of an item in a sorted list."""
NUMBER = (int, float)
SEARCH_SORTS: Mapping[str, tuple[type | tuple[type, ...], ...]] = {
    "created": (str,),
    "name": (str, str),
    "operator": (str, str),
    "best": (NUMBER, str),
}
"""Values that searches can be sorted by, with the types of a sort key's parts; a minus sign before one reverses it."""
CANDIDATE_SORTS: Mapping[str, tuple[type | tuple[type, ...], ...]] = {"created": (int,), "objective": (NUMBER, int)}
"""Values that candidates can be sorted by, likewise."""


@dataclass(frozen=True)
class SearchFilter:
    """Conditions that listed searches meet, all of them.

    Attributes:
        states: States, one of which the search is in; any if empty.
        operator: Name of its operator.
        device: One of its devices.
        owner: Id of the token that submitted it; empty for the machine's own user.
        tags: Tags that it has, all of them.
        text: Part of its name, its notes or its operator's name, in upper or lower case.
    """

    states: tuple[SearchState, ...] = ()
    operator: str | None = None
    device: str | None = None
    owner: str | None = None
    tags: tuple[str, ...] = ()
    text: str | None = None


@dataclass(frozen=True)
class CandidateFilter:
    """Conditions that listed candidates meet, all of them.

    Attributes:
        emitter: Emitter that proposed it.
        outcome: Outcome of its evaluation.
        state: State that it is in.
        device: Device that one of its variants is correct on; with a cell, the device of the cell's grid.
        cell: Cell that it was offered to.
        text: Part of its source, its note or the reason of its outcome, in upper or lower case.
    """

    emitter: str | None = None
    outcome: str | None = None
    state: CandidateState | None = None
    device: str | None = None
    cell: int | None = None
    text: str | None = None


@dataclass(frozen=True)
class Listed(Generic[Item]):
    """One page of a list. `after` is the sort key that the next page follows; None at the end of the list."""

    items: tuple[Item, ...]
    after: SortKey | None
