"""The fork server: forks commands from a process that has imported the sandbox only.

A fork copies page tables. With torch imported it takes longer than most commands run, and a sandbox forks twice.
"""

import atexit
import json
import os
from base64 import b64decode, b64encode
from dataclasses import asdict, dataclass
from functools import cache
from threading import Lock

from workers.errors import SandboxFailed, SandboxUnsafe
from workers.line_process import LineProcess
from workers.safe_python import PYTHON
from workers.sandbox.base import SandboxEnding, SandboxLimits, SandboxResult
from workers.sandbox.command import CommandSequence, SandboxCommand
from workers.sandbox.isolation import Isolation, IsolationLayerMissing
from workers.sandbox.supervisor import execute

COMMAND = (*PYTHON, "-m", "workers.sandbox")
"""The fork server's command line."""
GRACE_S = 30.0
"""Seconds to wait beyond a run's own limit: the server starts in 0.1 s and abandons a sandbox within 20 s."""
FAREWELL_S = 1.0
"""Seconds until the server is killed, once its input is closed."""


@dataclass(frozen=True)
class ForkRequest:
    """Commands to run in a sandbox, with its isolation and limits."""

    isolation: Isolation
    sequence: CommandSequence
    limits: SandboxLimits

    def run(self) -> str:
        """Run it. Returns JSON: the fields of a `SandboxResult`, or the error as `failed` or `unsafe`."""
        try:
            result = execute(self.isolation, self.sequence, b"", self.limits)
        except SandboxUnsafe as error:
            return json.dumps({"unsafe": str(error)})
        except (SandboxFailed, IsolationLayerMissing) as error:
            return json.dumps({"failed": str(error)})
        return json.dumps({**asdict(result), "reply": b64encode(result.reply).decode()})

    def to_json(self) -> str:
        """Encode it."""
        isolation = {"layers": sorted(self.isolation.layers), "hidden": self.isolation.hidden}
        commands = [
            {**vars(each), "files": {name: b64encode(content).decode() for name, content in each.files.items()}}
            for each in self.sequence.commands
        ]
        return json.dumps({"isolation": isolation, "commands": commands, "limits": asdict(self.limits)})

    @classmethod
    def from_json(cls, text: bytes) -> "ForkRequest":
        """Decode the output of `to_json`."""
        fields = json.loads(text)
        isolation = fields["isolation"]
        commands = [
            SandboxCommand(**{**each, "files": {name: b64decode(content) for name, content in each["files"].items()}})
            for each in fields["commands"]
        ]
        return cls(
            Isolation(frozenset(isolation["layers"]), tuple(isolation["hidden"])),
            CommandSequence(commands),
            SandboxLimits(**fields["limits"]),
        )


class ForkServer:
    """Client of the fork server, which it starts at the first request, or before, and again after a loss."""

    def __init__(self) -> None:
        self._process: LineProcess | None = None
        self._lock = Lock()

    def run(self, request: ForkRequest) -> SandboxResult:
        """Run one request at a time.

        Raises:
            SandboxFailed: If the sandbox cannot be set up, or the fork server is lost.
            SandboxUnsafe: If a process of the sandbox may be alive afterwards.
        """
        with self._lock:
            try:
                answer = json.loads(self._ask(request))
            except SandboxFailed:  # The server ends with the thread that started it; the next request notices.
                answer = json.loads(self._ask(request))
        if "unsafe" in answer:
            raise SandboxUnsafe(answer["unsafe"])
        if "failed" in answer:
            raise SandboxFailed(answer["failed"])
        return SandboxResult(
            **{**answer, "ending": SandboxEnding(answer["ending"]), "reply": b64decode(answer["reply"])}
        )

    def start(self) -> None:
        """Start the server if it does not run, so that the first request need not wait for its imports."""
        with self._lock:
            self._started()

    def close(self) -> None:
        """End the server. Idempotent."""
        if self._process is not None:
            self._process.close(FAREWELL_S)

    def _ask(self, request: ForkRequest) -> bytes:
        process = self._started()
        process.say(request.to_json().encode())
        try:
            answer = process.hear(request.limits.wall_s + GRACE_S)
        except (EOFError, OSError) as error:
            process.kill()
            raise SandboxFailed(f"the fork server exited with status {process.status}") from error
        if answer is None:
            process.kill()
            raise SandboxUnsafe(f"the fork server did not answer within {request.limits.wall_s + GRACE_S:g} s")
        return answer

    def _started(self) -> LineProcess:
        if self._process is None or not self._process.alive:
            self.close()
            self._process = LineProcess(COMMAND)
        return self._process


def fork_server() -> ForkServer:
    """Return this process's client; a forked process gets its own."""
    return _fork_server_of(os.getpid())


@cache
def _fork_server_of(_process: int) -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server
