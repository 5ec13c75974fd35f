"""The fork server: commands are forked from a process that has nothing imported but the jail.

A fork copies page tables. Of a process that has torch imported it takes longer than most commands run, twice a jail.
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
from workers.sandbox.command import SandboxCommand
from workers.sandbox.isolation import Isolation, IsolationLayerMissing
from workers.sandbox.supervisor import execute

COMMAND = (*PYTHON, "-m", "workers.sandbox")
"""How it is started."""
GRACE_S = 30.0
"""Seconds beyond a run's own limit: it starts in 0.1 s, and a jail is given up within twenty."""
FAREWELL_S = 1.0
"""Seconds that it has to end by itself once nobody asks any more."""


@dataclass(frozen=True)
class ForkRequest:
    """A command to run in a jail, with its walls and limits."""

    walls: Isolation
    command: SandboxCommand
    limits: SandboxLimits

    def carry_out(self) -> str:
        """Run it. Returns JSON: the fields of a `SandboxResult`, or in `failed` or `unsafe` why there is none."""
        try:
            result = execute(self.walls, self.command, b"", self.limits)
        except SandboxUnsafe as error:
            return json.dumps({"unsafe": str(error)})
        except (SandboxFailed, IsolationLayerMissing) as error:
            return json.dumps({"failed": str(error)})
        return json.dumps({**asdict(result), "reply": b64encode(result.reply).decode()})

    def to_json(self) -> str:
        """The same as text."""
        walls = {"layers": sorted(self.walls.layers), "hidden": self.walls.hidden}
        files = {name: b64encode(content).decode() for name, content in self.command.files.items()}
        command = {"argv": self.command.argv, "files": files, "collect": self.command.collect}
        return json.dumps({"walls": walls, "command": command, "limits": asdict(self.limits)})

    @classmethod
    def from_json(cls, text: bytes) -> "ForkRequest":
        """What `to_json` made."""
        told = json.loads(text)
        walls, command = told["walls"], told["command"]
        files = {name: b64decode(content) for name, content in command["files"].items()}
        return cls(
            Isolation(frozenset(walls["layers"]), tuple(walls["hidden"])),
            SandboxCommand(command["argv"], files, command["collect"]),
            SandboxLimits(**told["limits"]),
        )


class ForkServer:
    """The process, as whoever has commands run knows it. Started when it is first needed, and when it is gone."""

    def __init__(self) -> None:
        self._process: LineProcess | None = None
        self._lock = Lock()

    def run(self, errand: ForkRequest) -> SandboxResult:
        """Have a command run, one at a time.

        Raises:
            JailFailed: If the jail cannot be set up, or the fork server is lost.
            JailUnsafe: If something of the jail may be alive afterwards.
        """
        with self._lock:
            try:
                told = self._ask(errand)
            except SandboxFailed:  # It ends with the thread that started it; the next one finds out by asking.
                told = self._ask(errand)
        answer = json.loads(told)
        if "unsafe" in answer:
            raise SandboxUnsafe(answer["unsafe"])
        if "failed" in answer:
            raise SandboxFailed(answer["failed"])
        return SandboxResult(
            **{**answer, "ending": SandboxEnding(answer["ending"]), "reply": b64decode(answer["reply"])}
        )

    def close(self) -> None:
        """End it. Idempotent."""
        if self._process is not None:
            self._process.close(FAREWELL_S)

    def _ask(self, errand: ForkRequest) -> bytes:
        process = self._started()
        process.say(errand.to_json().encode())
        try:
            answer = process.hear(errand.limits.wall_s + GRACE_S)
        except (EOFError, OSError) as error:
            process.kill()
            raise SandboxFailed(f"the fork server ended with status {process.status}") from error
        if answer is None:
            process.kill()
            raise SandboxUnsafe("the fork server does not answer")
        return answer

    def _started(self) -> LineProcess:
        if self._process is None or not self._process.alive:
            self.close()
            self._process = LineProcess(COMMAND)
        return self._process


def fork_server() -> ForkServer:
    """That of this process: one that was forked from another has its own."""
    return _fork_server_of(os.getpid())


@cache
def _fork_server_of(_process: int) -> ForkServer:
    server = ForkServer()
    atexit.register(server.close)
    return server
