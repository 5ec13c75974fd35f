"""Records of leases: which coordinator runs a search, and until when."""

from dataclasses import dataclass
from datetime import datetime

from kernelreef.states import SearchState


@dataclass(frozen=True)
class SearchLease:
    """A coordinator's lease on a search.

    Attributes:
        search: Id of the search.
        holder: Id of the coordinator, new at each start; empty once it has released the search.
        fence: Fencing token: grows by one whenever the holder changes.
        until_s: Time at which it lapses unless renewed, seconds since 1970 by the database's own clock.
    """

    search: str
    holder: str
    fence: int
    until_s: float


@dataclass(frozen=True)
class SearchFingerprint:
    """Fields of an unfinished search that show if a cached record is still valid; `in_flight` counts candidates."""

    id: str
    owner: str
    state: SearchState
    updated_at: datetime
    in_flight: int
