"""Scopes of tokens, what a scope includes besides its own actions, and tokens that are restricted to one search."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Scope(StrEnum):
    """Kind of action that a token permits."""

    READ = "read"
    """Read searches, candidates, operators, workers and results."""
    SUBMIT = "submit"
    """Start searches and submit operators."""
    STEER = "steer"
    """Pause, resume, stop and direct existing searches."""
    PROPOSE = "propose"
    """Submit candidates to existing searches, check sources for them, and answer their prompts."""
    WORKER = "worker"
    """Join as a remote worker."""
    ADMIN = "admin"
    """Manage tokens, the trust in workers and the audit log, delete searches; includes `read`."""


INCLUDED: Mapping[Scope, frozenset[Scope]] = {
    Scope.ADMIN: frozenset({Scope.READ}),
    Scope.STEER: frozenset({Scope.PROPOSE}),
}
"""Scopes that a scope includes. The audit log names every search and its changes, so an administrator may read. Whoever
directs a search may propose for it, too.

No other scope includes one: a token for a worker lies on another machine, and one that only submits may lie in a
pipeline.
"""


RESTRICTABLE = frozenset({Scope.READ, Scope.STEER, Scope.PROPOSE})
"""Scopes that a token may have for one search only; the others are about more than searches."""
_RESTRICTED = re.compile(
    r"(?P<scope>[a-z]+)@(?P<search>[0-9a-f-]{36})(/(?P<exchange>[0-9a-f-]{36})/(?P<most>\d{1,9}))?"
)


@dataclass(frozen=True)
class SearchGrant:
    """Restriction of a token to one search.

    Attributes:
        search: Id of the search.
        exchange: Id of the exchange of the agent that the token was made for; empty for any other token.
        evaluations: Maximum number of candidates of that exchange; None for no limit but the search's.
    """

    search: str
    exchange: str = ""
    evaluations: int | None = None

    def write(self, scope: Scope) -> str:
        """Write a scope with this restriction, as tokens store it.

        An older release knows no scope of that name, so that its token permits nothing there.
        """
        run = f"/{self.exchange}/{self.evaluations or 0}" if self.exchange else ""
        return f"{scope.value}@{self.search}{run}"


def grant_of(listed: Collection[str]) -> SearchGrant | None:
    """Return the restriction of a token's scopes; None if it has none."""
    found = next((match for text in listed if (match := _RESTRICTED.fullmatch(text))), None)
    if found is None:
        return None
    return SearchGrant(found["search"], found["exchange"] or "", int(found["most"]) if found["most"] else None)


def permitted(listed: Collection[str]) -> frozenset[Scope]:
    """Return the scopes that a token permits; those unknown to this release are ignored."""
    grant = grant_of(listed)
    if grant is None:
        own = frozenset(scope for scope in Scope if scope.value in listed)
    else:  # Scopes for another search, or for all, do not count beside it.
        own = frozenset(scope for scope in RESTRICTABLE if grant.write(scope) in listed)
    return own.union(*(INCLUDED.get(scope, frozenset()) for scope in own))


EVERY_SCOPE = frozenset(Scope)
"""Scopes of the machine's own user and of an archive's first token."""
