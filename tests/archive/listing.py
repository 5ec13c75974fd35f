"""Queries of lists that an index has to answer, order included."""

from collections.abc import Awaitable, Callable

from archive.records import CandidateFilter, CandidateState, SearchFilter, SearchState
from archive.store import Store

SEARCHES = {
    "": SearchFilter(),
    " in a state": SearchFilter(states=(SearchState.RUNNING,)),
    " for an operator": SearchFilter(operator="rmsnorm"),
    " of an owner": SearchFilter(owner=""),
    " on a device": SearchFilter(device="h200"),
    " with tags": SearchFilter(tags=("a", "b")),
    " with a text": SearchFilter(text="a"),
}
CANDIDATES = {
    "": CandidateFilter(),
    " of an emitter": CandidateFilter(emitter="tune"),
    " of an outcome": CandidateFilter(outcome="hang"),
    " of both": CandidateFilter(emitter="tune", outcome="hang"),
    " in a state": CandidateFilter(state=CandidateState.QUEUED),
    " on a device": CandidateFilter(device="h200"),
    " with a text": CandidateFilter(text="a"),
}

QUERIES: dict[str, Callable[[Store, str, str], Awaitable[object]]] = {
    **{
        f"listings.searches{what}": lambda store, search, candidate, where=where: store.listings.searches(
            where, after=("x",)
        )
        for what, where in SEARCHES.items()
    },
    "listings.searches by name": lambda store, search, candidate: store.listings.searches(sort="name", after=("x", "")),
    "listings.searches by operator": lambda store, search, candidate: store.listings.searches(
        sort="-operator", after=("x", "y")
    ),
    **{
        f"listings.candidates{what}": lambda store, search, candidate, where=where: store.listings.candidates(
            search, where, after=(9,)
        )
        for what, where in CANDIDATES.items()
    },
    **{
        f"listings.candidates{what} by objective": lambda store, search, candidate, where=where: (
            store.listings.candidates(search, where, sort="-objective", after=(1.5, 9))
        )
        for what, where in CANDIDATES.items()
    },
}
