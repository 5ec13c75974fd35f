"""Limits and results of a sandbox."""

from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class SandboxLimits:
    """Limits of one run.

    Attributes:
        wall_s: Seconds from the start of the run until its process tree is killed.
        cpu_s: Maximum processor seconds of one process.
        memory_bytes: Maximum address space that one process may add to what it starts with.
        reply_bytes: Maximum length of a reply.
        processes: Maximum number of simultaneous processes, the first included; 1 forbids new ones. Above 1 it is a
            loose bound: the kernel also counts threads, and sets root no limit.
    """

    wall_s: float = 60.0
    cpu_s: float = 60.0
    memory_bytes: int = 4 * 2**30
    reply_bytes: int = 64 * 2**20
    processes: int = 1


class SandboxEnding(StrEnum):
    """Ending of a run."""

    RETURNED = "returned"
    RAISED = "raised"
    TIMEOUT = "timeout"
    MEMORY = "memory"
    CRASHED = "crashed"
    FLOODED = "flooded"


@dataclass(frozen=True)
class SandboxResult:
    """Result of running a function.

    Attributes:
        ending: The ending.
        reply: The function's return value, empty if it did not return. Hostile data.
        detail: Description of any other ending, or the traceback. Hostile text.
        wall_s: Seconds from fork to exit.
    """

    ending: SandboxEnding
    reply: bytes
    detail: str
    wall_s: float

    @property
    def reason(self) -> str:
        """The line of `detail` that says what happened: a traceback's last, else the first, which a stack follows."""
        lines = self.detail.splitlines() or [""]
        return lines[-1] if self.ending is SandboxEnding.RAISED else lines[0]


@dataclass(frozen=True)
class CommandResult:
    """Result of running a command.

    Attributes:
        ending: The ending; `RETURNED` for every exit status.
        status: Exit status of the command, negative for a signal; None if it was killed from outside.
        stdout: First bytes of its standard output.
        stderr: First bytes of its standard error.
        files: Content of the collected files that exist, by name. Hostile data.
        detail: Description of any ending other than `RETURNED`.
        wall_s: Seconds from fork to exit.
    """

    ending: SandboxEnding
    status: int | None
    stdout: bytes
    stderr: bytes
    files: dict[str, bytes] = field(default_factory=dict)
    detail: str = ""
    wall_s: float = 0.0
