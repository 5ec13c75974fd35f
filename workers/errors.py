"""Failures of our own machine on the worker side. A failed candidate is data (an `Outcome`), never one of these."""

NO_MEMORY = ("out of memory", "OUT_OF_MEMORY", "ALLOC_FAILED", "allocate memory")
"""Fragments by which torch, the driver and libraries report that a card or the host has too little memory. An error may
have the word "memory" for another reason, as when a result shares memory with an input."""


class WorkerError(Exception):
    """Root of the workers' errors."""


class Transient(WorkerError):
    """The same work may succeed elsewhere or later."""


class Permanent(WorkerError):
    """A retry cannot help."""


class JobWaits(Transient):
    """The work waits for something that others hold: it is no failed delivery, however often it is tried again."""


class SandboxFailed(Transient):
    """The sandbox could not be set up for this run."""


class ExecutorDied(Transient):
    """The executor process exited while it held a job."""


class QueueUnavailable(Transient):
    """Redis did not answer."""


class SandboxUnsafe(Permanent):
    """This machine cannot kill a sandbox as a tree, so no untrusted process may start."""


class BadMessage(Permanent):
    """A message does not follow the protocol."""


class Dismissed(Permanent):
    """The service refuses this worker; the message gives the reason."""


class ToolMissing(Permanent):
    """This machine lacks a tool, target or device that the work needs."""


def first_line(error: BaseException) -> str:
    """Return the class of an error, and the first line of what it says."""
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"


def lacks_memory(error: str) -> bool:
    """Return True if the text of an error says that a card or the host has too little memory."""
    return any(words in error for words in NO_MEMORY)
