"""The request of a remote worker for a job."""

from workers.protocol import REASON_CHARS, WireModel

ASK_BYTES = 4 * REASON_CHARS
"""Maximum length of a request that is read, bytes: ids, and an error of `REASON_CHARS` characters."""
ASK_MS = 5_000
"""Milliseconds after which a request expires, so that a dead worker is handed no job."""


class LeaseRequest(WireModel):
    """One request, which a remote worker repeats until it is answered.

    Attributes:
        number: Grows with every request of a worker; an answered number is not answered again.
        wants: True if it asks for a job; False if it only releases one.
        done: The job that the worker reported on since its last request.
        returned: The job that it releases.
        mishap: Error that made the delivery of the released job fail; empty if it did not fail.
    """

    number: int
    wants: bool = True
    done: str = ""
    returned: str = ""
    mishap: str = ""
