"""The guard of a person's own agent, `python -m workers agent`: one folder to write in, and an end for its whole tree.

The agent's program is trusted by the person who configures it; what it starts may still go astray. So it may write in
its folder only and does not see the service's data, as far as this machine's namespaces allow; and whatever it forks
ends with it. Standard input holds the request in one line, then stays open: if it closes, all ends. Standard output is
the agent's; the result goes to standard error as one JSON object.
"""

import json
import os
import resource
import select
import signal
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from workers.sandbox import syscalls
from workers.sandbox.child import close_all_but
from workers.sandbox.init import kill_descendants, signal_descendants
from workers.sandbox.isolation import Isolation, IsolationLayerMissing, blame_layer, enter_namespaces

TERM_S = 3.0
"""Seconds between the request to end and the kill of everything that is left."""
LOOK_S = 0.1
"""Seconds between two looks at the clock."""
MOST_PROCESSES = 1024
"""Maximum number of processes and threads in the agent's user namespace; coding agents use some dozens."""
MOST_FILE_BYTES = 2**31
"""Maximum size of one file that the agent writes."""
WEAKER: tuple[frozenset[str], ...] = (
    frozenset({"user", "mount", "pid", "readonly", "proc"}),
    frozenset({"user", "mount", "readonly"}),
    frozenset(),
)
"""Isolations, from the one that is tried first. The last always works: then only the tree's end is certain."""
STARTED, FAILED = b"+", b"-"
NOT_STARTED = 127
"""Exit status if the command cannot be started, as shells have it."""


@dataclass(frozen=True)
class GuardRequest:
    """Agent to run.

    Attributes:
        command: Its command line.
        environment: Its whole environment.
        folder: Its working directory, where it may write.
        seconds: Seconds after which it is ended.
        input: File that it gets as standard input.
        writable: Further folders where it may write.
        hidden: Folders that appear empty.
    """

    command: list[str]
    environment: dict[str, str]
    folder: str
    seconds: float
    input: str = os.devnull
    writable: list[str] = field(default_factory=list)
    hidden: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class GuardResult:
    """End of an agent.

    Attributes:
        status: Its exit status, negative for a signal; None if it was ended.
        timed_out: True if its time was over.
        isolation: Layers that separated it from this machine.
        swept: True if everything that it started is known to be dead.
    """

    status: int | None
    timed_out: bool
    isolation: str
    swept: bool


def main() -> int:
    """Run one agent."""
    request = GuardRequest(**json.loads(_line(sys.stdin.fileno())))
    syscalls.adopt_orphans()
    os.write(sys.stderr.fileno(), json.dumps(asdict(guard(request, sys.stdin.fileno()))).encode())
    return 0


def guard(request: GuardRequest, lifeline: int) -> GuardResult:
    """Run an agent until it ends, its time is over, or the lifeline breaks; then kill all that it has started."""
    until = time.monotonic() + request.seconds
    for layers in WEAKER:
        isolation = Isolation(layers, tuple(request.hidden))
        process = _start(request, isolation)
        if process is not None:
            break
    else:
        return GuardResult(NOT_STARTED, False, "none", True)
    timed_out, status = _watch(process, lifeline, until)
    return GuardResult(status, timed_out, isolation.label, kill_descendants())


def _watch(process: int, lifeline: int, until: float) -> tuple[bool, int | None]:
    """Wait for the end of a process, of its time, or of the lifeline. Returns if it was late, and its status."""
    asked_at: float | None = None
    while True:
        ended = os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is not None:
            code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
            return asked_at is not None and time.monotonic() >= until, None if asked_at is not None else code
        cut = bool(select.select([lifeline], [], [], LOOK_S)[0]) if asked_at is None else False
        if asked_at is None and (cut or time.monotonic() >= until):
            asked_at = time.monotonic()
            signal_descendants(signal.SIGTERM)
        if asked_at is not None:
            time.sleep(LOOK_S)
            if time.monotonic() >= asked_at + TERM_S:
                return time.monotonic() >= until, None


def _start(request: GuardRequest, isolation: Isolation) -> int | None:
    """Start an agent. Returns the process to wait for; None if this machine lacks a layer of the isolation."""
    ready, told = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(ready)
        _enter(request, isolation, told)
    os.close(told)
    said = os.read(ready, 1)
    os.close(ready)
    if said == STARTED:
        return process
    os.waitpid(process, 0)
    return None


def _enter(request: GuardRequest, isolation: Isolation, told: int) -> None:
    """Enter the namespaces, then start the init process of the agent. Does not return."""
    status = NOT_STARTED
    try:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        enter_namespaces(isolation)
        syscalls.die_with_parent(signal.SIGKILL)
        init = os.fork()
        if init == 0:
            _be_init(request, isolation, told)
        os.close(told)
        status = os.waitstatus_to_exitcode(os.waitpid(init, 0)[1])
    except (OSError, IsolationLayerMissing):
        os.write(told, FAILED)
    finally:
        os._exit(status if status >= 0 else 128 - status)


def _be_init(request: GuardRequest, isolation: Isolation, told: int) -> None:
    """Arrange the mounts, start the agent, and reap until it ends; a pid namespace ends with this process."""
    status = NOT_STARTED
    try:
        syscalls.die_with_parent(signal.SIGKILL)
        _arrange_mounts(request, isolation)
        os.write(told, STARTED)
        os.close(told)
        agent = os.fork()
        if agent == 0:
            _become_agent(request)
        status = _reap_until(agent)
    except (OSError, IsolationLayerMissing):
        os.write(told, FAILED)
    finally:
        os._exit(status if status >= 0 else 128 - status)


def _reap_until(agent: int) -> int:
    while True:
        process, status = os.wait()
        if process == agent:
            return os.waitstatus_to_exitcode(status)


def _arrange_mounts(request: GuardRequest, isolation: Isolation) -> None:
    """Make everything read-only but the agent's folders, and hide what it must not see."""
    if "readonly" in isolation.layers:
        writable = [str(Path(each).resolve()) for each in (request.folder, *request.writable) if Path(each).is_dir()]
        with blame_layer("readonly"):
            for each in writable:
                syscalls.bind_mount(each, each)
            syscalls.set_mounts(read_only=True)
            for each in writable:
                syscalls.make_writable(each)
            for each in isolation.hidden:
                if Path(each).is_dir():
                    syscalls.mount("tmpfs", each, options="size=4k,mode=0555")
    if "proc" in isolation.layers:
        with blame_layer("proc"):
            syscalls.mount("proc", "/proc", syscalls.MS_NOSUID | syscalls.MS_NODEV | syscalls.MS_NOEXEC)


def _become_agent(request: GuardRequest) -> None:
    """Become the agent: its own session, streams, limits, and no privileges. Does not return."""
    try:
        os.setsid()
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.dup2(os.open(request.input, os.O_RDONLY), 0)
        os.dup2(1, 2)
        close_all_but(0, 1, 2)
        for limit, most in (
            (resource.RLIMIT_CORE, 0),
            (resource.RLIMIT_NPROC, MOST_PROCESSES),
            (resource.RLIMIT_FSIZE, MOST_FILE_BYTES),
        ):
            ceiling = resource.getrlimit(limit)[1]
            most = most if ceiling == resource.RLIM_INFINITY else min(most, ceiling)
            resource.setrlimit(limit, (most, most))
        syscalls.forbid_new_privileges()
        syscalls.drop_capabilities()
        os.chdir(request.folder)
        os.execvpe(request.command[0], request.command, request.environment)
    except OSError as error:
        os.write(1, f"{request.command[0]} cannot be started: {error.strerror}\n".encode())
    finally:
        os._exit(NOT_STARTED)


def _line(descriptor: int) -> bytes:
    """Read one line without reading beyond it."""
    line = b""
    while not line.endswith(b"\n"):
        byte = os.read(descriptor, 65536) if not line else os.read(descriptor, 1)
        if not byte:
            break
        line += byte
    return line


if __name__ == "__main__":
    sys.exit(main())
