"""Scopes of tokens, and what a scope includes besides its own actions."""

from collections.abc import Collection, Mapping
from enum import StrEnum


class Scope(StrEnum):
    """Kind of action that a token permits."""

    READ = "read"
    """Read searches, candidates, operators, workers and results."""
    SUBMIT = "submit"
    """Start searches and submit operators."""
    STEER = "steer"
    """Pause, resume, stop and direct existing searches."""
    WORKER = "worker"
    """Join as a remote worker."""
    ADMIN = "admin"
    """Manage tokens, the trust in workers and the audit log, delete searches; includes `read`."""


INCLUDED: Mapping[Scope, frozenset[Scope]] = {Scope.ADMIN: frozenset({Scope.READ})}
"""Scopes that a scope includes. The audit log names every search and its changes, so an administrator may read.

No other scope includes one: a token for a worker lies on another machine, and one that only submits may lie in a
pipeline.
"""


def permitted(listed: Collection[str]) -> frozenset[Scope]:
    """Return the scopes that a token permits; those unknown to this release are ignored."""
    own = frozenset(scope for scope in Scope if scope.value in listed)
    return own.union(*(INCLUDED.get(scope, frozenset()) for scope in own))


EVERY_SCOPE = frozenset(Scope)
"""Scopes of the machine's own user and of an archive's first token."""
