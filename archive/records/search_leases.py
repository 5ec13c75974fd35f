"""Records of tenures: which coordinator runs a search, and until when."""

from dataclasses import dataclass
from datetime import datetime

from kernelreef.states import SearchState


@dataclass(frozen=True)
class SearchLease:
    """A coordinator's hold on a search.

    Attributes:
        search: What is held.
        holder: Id of the coordinator, one a life; empty once it let go.
        fence: Grows by one with every change of hands.
        until_s: When it lapses unless it is renewed, seconds since 1970 by the database's own clock.
    """

    search: str
    holder: str
    fence: int
    until_s: float


@dataclass(frozen=True)
class SearchFingerprint:
    """As much of an open search as tells whether what is known of it still holds; `in_flight` counts candidates."""

    id: str
    owner: str
    state: SearchState
    updated_at: datetime
    in_flight: int
