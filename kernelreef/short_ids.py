"""Short ids, as pages and tables show them."""

SHORT_LENGTH = 6
"""Minimum length of a short id: a UUIDv7 begins with its time, so its last 24 bits tell ids apart."""


def brief(identity: str) -> str:
    """Return the short form of an id: its last characters."""
    return identity[-SHORT_LENGTH:]
