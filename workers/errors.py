"""Failures of our own machine on the worker side.

A candidate that fails is data (an `Outcome`), never one of these.

    WorkerError
    ├── Transient            the same work may succeed elsewhere or later
    │   ├── JailFailed       the jail could not be set up for this run
    │   ├── BenchDied        the bench process ended while it held a job
    │   └── QueueUnavailable Redis did not answer
    └── Permanent            a retry cannot help
        ├── JailUnsafe       this machine cannot kill a jail as a tree
        ├── BadMessage       a message does not follow the protocol
        ├── Dismissed        the service wants this worker to work no longer
        └── ToolMissing      ptxas, a target or a device is not to be had here
"""


class WorkerError(Exception):
    """Root of the room's errors."""


class Transient(WorkerError):
    """The same work may succeed elsewhere or later."""


class Permanent(WorkerError):
    """A retry cannot help."""


class SandboxFailed(Transient):
    """The jail could not be set up for this run."""


class ExecutorDied(Transient):
    """The bench process ended while it held a job."""


class QueueUnavailable(Transient):
    """Redis did not answer."""


class SandboxUnsafe(Permanent):
    """This machine cannot kill a jail as a tree, so nothing untrusted may start."""


class BadMessage(Permanent):
    """A message does not follow the protocol."""


class Dismissed(Permanent):
    """The service wants this worker to work no longer, or not as it is; the message says why."""


class ToolMissing(Permanent):
    """A tool, target or device that the work needs is not to be had on this machine."""
