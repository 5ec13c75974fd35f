"""The request of a host that asks the broker for a job."""

from workers.protocol import REASON_CHARS, WireModel

ASK_BYTES = 4 * REASON_CHARS
"""Longest ask that is read, bytes: ids, and a mishap of `REASON_CHARS` characters."""
ASK_MS = 5_000
"""An ask lapses after this long, milliseconds, so that a host that died is handed nothing."""


class LeaseRequest(WireModel):
    """One ask; a host writes it again until it is answered.

    Attributes:
        number: Grows with every ask of a host; one that was answered is not answered again.
        wants: Whether it wants a job; one that only gives a job back does not.
        done: The job that it has handed in a report on since it last asked.
        returned: The job that it gives back.
        mishap: What went wrong with the returned one; that delivery then counts as one that failed.
    """

    number: int
    wants: bool = True
    done: str = ""
    returned: str = ""
    mishap: str = ""
