"""Scopes: what a caller may do. None includes another, so what a token may do is exactly what it lists."""

from enum import StrEnum


class Scope(StrEnum):
    """One kind of thing that a caller may do."""

    READ = "read"
    """See searches, candidates, operators, workers and what comes of them."""
    SUBMIT = "submit"
    """Start searches and hand in operators."""
    STEER = "steer"
    """Pause, resume, stop and direct searches that are there."""
    WORKER = "worker"
    """Join the pool as a worker."""
    ADMIN = "admin"
    """Tokens, workers' trust and the audit log."""


EVERY_SCOPE = frozenset(Scope)
"""What the machine's own user may do, and the first token of an archive."""
