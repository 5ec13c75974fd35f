"""States of searches and candidates, as in the archive and on the wire."""

from enum import StrEnum


class SearchState(StrEnum):
    """State of a search. `preparing` exports the reference; `done`, `stopped` and `failed` are final."""

    PREPARING = "preparing"
    RUNNING = "running"
    PAUSED = "paused"
    DONE = "done"
    STOPPED = "stopped"
    FAILED = "failed"


ACTIVE = (SearchState.PREPARING, SearchState.RUNNING)
"""States of a search that goes on by itself."""
OPEN = (*ACTIVE, SearchState.PAUSED)
"""States of a search that has not ended; there are only a few of these, while ended ones grow without bound."""
ENDED = (SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)
"""Final states of a search."""


class CandidateState(StrEnum):
    """State of a candidate: waiting for its trace, for verdicts on its variants, or judged (final)."""

    QUEUED = "queued"
    TRACED = "traced"
    JUDGED = "judged"
