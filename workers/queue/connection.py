"""The Redis connection of both sides of the queue: retries, scripts, and one error for all failures."""

import contextlib
from collections.abc import Iterator
from importlib.resources import files

from redis.backoff import ExponentialWithJitterBackoff
from redis.exceptions import ConnectionError as ConnectionFailed
from redis.exceptions import OutOfMemoryError, ReadOnlyError
from redis.exceptions import TimeoutError as TimedOut

from workers.errors import QueueUnavailable

ANSWER_S = 10.0
"""Seconds without an answer of Redis after which the connection counts as lost; blocking commands block for less."""
MAX_BLOCK_MS = 5_000
"""Longest wait in one blocking command, milliseconds."""
RETRIES = 3
"""Tries after the first, within half a second: enough for a dropped connection, not for a server that is down."""

_UNAVAILABLE = (ConnectionFailed, TimedOut, ReadOnlyError, OutOfMemoryError, OSError)


def backoff() -> ExponentialWithJitterBackoff:
    """Return the waits between tries: tens of milliseconds, growing to 0.3 s."""
    return ExponentialWithJitterBackoff(base=0.02, cap=0.3)


def script(*names: str) -> str:
    """Return the text of the package's Lua scripts of these names, one after the other."""
    return "\n".join(files("workers.queue").joinpath(f"{name}.lua").read_text() for name in names)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """Turn the client's errors about a server that does not serve us into `QueueUnavailable`.

    Raises:
        QueueUnavailable: If Redis does not answer, is still loading, refuses our credential or takes no writes.
    """
    try:
        yield
    except _UNAVAILABLE as error:
        raise QueueUnavailable(f"Redis does not answer: {error}") from error
