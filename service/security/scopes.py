"""Scopes of tokens. No scope includes another: a token permits exactly what it lists."""

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
    """Manage tokens, the trust in workers and the audit log; delete searches."""


EVERY_SCOPE = frozenset(Scope)
"""Scopes of the machine's own user and of an archive's first token."""
