"""What goes into a jail and what comes out."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class SandboxLimits:
    """What one run may use.

    Attributes:
        wall_s: Seconds from the start of the run until its tree of processes is killed.
        cpu_s: Processor seconds of one process.
        memory_bytes: Address space that one process may add to what it starts with.
        reply_bytes: Longest reply that is read.
        processes: Processes at once, the first included; 1 forbids to start any. Above 1 it is a loose bound: the
            kernel also counts threads, and does not count for root.
    """

    wall_s: float = 60.0
    cpu_s: float = 60.0
    memory_bytes: int = 4 * 2**30
    reply_bytes: int = 64 * 2**20
    processes: int = 1


class SandboxEnding(StrEnum):
    """How a run ended."""

    RETURNED = "returned"
    RAISED = "raised"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"
    FLOODED = "flooded"


@dataclass(frozen=True)
class SandboxResult:
    """What came out of a run of a function.

    Attributes:
        ending: How it ended.
        reply: What the function returned, if it did. Hostile data.
        detail: Any other ending in words, or the traceback's text. Hostile text.
        wall_s: Seconds from fork to reaped.
    """

    ending: SandboxEnding
    reply: bytes
    detail: str
    wall_s: float


@dataclass(frozen=True)
class CommandResult:
    """What came out of a run of a command.

    Attributes:
        ending: How it ended; `RETURNED` whatever the exit status.
        status: Exit status of the command, negative for a signal; None if it did not end by itself.
        stdout: First bytes it wrote to its standard output.
        stderr: First bytes it wrote to its standard error.
        files: Content of the collected files that exist, by name. Hostile data.
        detail: Any ending but `RETURNED`, in words.
        wall_s: Seconds from fork to reaped.
    """

    ending: SandboxEnding
    status: int | None
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    detail: str = ""
    wall_s: float = 0.0
