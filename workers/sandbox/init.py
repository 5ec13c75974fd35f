"""The init process: the trusted process between the parent and the child, which makes sure that the whole tree dies.

It runs none of the child's code. It kills the tree when the child ends or the lifeline breaks. The lifeline is a pipe
whose other end only the parent holds, so the sandboxes of a killed parent die too.
"""

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from workers.sandbox import child as sandbox_child
from workers.sandbox import syscalls
from workers.sandbox.base import SandboxLimits
from workers.sandbox.isolation import Isolation, IsolationLayerMissing, enter_namespaces

_TAIL_BYTES = 16384
# Length of standard error that is kept, from its end.
_SWEEP_S = 10.0
# Maximum time to kill a tree without a pid namespace; a tree of a thousand processes takes under a second.

MAP_REQUEST = b"?"
"""Request to the parent to map the user namespace to nobody."""
MAPPED = b"+"
"""The parent's answer after it has done so."""


@dataclass(frozen=True)
class ChildDeath:
    """The child's end, as the init process saw it.

    Attributes:
        status: Exit status, negative for a signal; None if the child never started.
        cpu_s: Processor seconds of the child and its reaped children.
        stderr: End of its standard error: hostile text, or a `setup_failure`.
        swept: True if the whole tree is known to be dead.
    """

    status: int | None
    cpu_s: float = 0.0
    stderr: str = ""
    swept: bool = True


@dataclass(frozen=True)
class ChildPipes:
    """Pipe ends of the init process and the child: `reply` and `report` to write, `lifeline` to read."""

    reply: int
    report: int
    lifeline: int


@dataclass(frozen=True)
class ChildRequest:
    """Work to run, and its confinement. `work` gets the reply pipe and does not return."""

    isolation: Isolation
    limits: SandboxLimits
    directory: str
    work: Callable[[int], None]


def run_init(request: ChildRequest, pipes: ChildPipes) -> None:
    """Start the child, wait for its end or the parent's, report, then end. Does not return."""
    try:
        os.setsid()
        sandbox_child.close_all_but(pipes.reply, pipes.report, pipes.lifeline)
        syscalls.adopt_orphans()
        death = _guard(request, pipes)
        os.write(pipes.report, json.dumps(asdict(death)).encode())
    finally:
        os._exit(0)


def _guard(request: ChildRequest, pipes: ChildPipes) -> ChildDeath:
    wakeup = _wake_on_child()
    try:
        enter_namespaces(request.isolation)
    except IsolationLayerMissing as missing:
        return ChildDeath(status=None, stderr=sandbox_child.setup_failure(missing))
    if request.isolation.maps_nobody:
        os.write(pipes.report, MAP_REQUEST)
        if os.read(pipes.lifeline, 1) != MAPPED:
            refusal = IsolationLayerMissing("nobody", PermissionError("the user namespace cannot be given to nobody"))
            return ChildDeath(status=None, stderr=sandbox_child.setup_failure(refusal))
    errors, stderr = os.pipe()
    process = os.fork()
    if process == 0:
        sandbox_child.run_child(
            request.isolation, request.limits, request.directory, request.work, (pipes.reply, stderr)
        )
    os.close(stderr)
    os.close(pipes.reply)
    return _reap(process, _watch(process, errors, pipes.lifeline, wakeup), errors)


def _wake_on_child() -> int:
    wakeup, bell = os.pipe()
    os.set_blocking(bell, False)
    signal.set_wakeup_fd(bell)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return wakeup


def _watch(process: int, errors: int, lifeline: int, wakeup: int) -> bytes:
    """Wait until the child has ended or the lifeline breaks. Returns the tail of its standard error."""
    tail = b""
    poller = select.poll()
    for descriptor in (errors, lifeline, wakeup):
        poller.register(descriptor, select.POLLIN)
    while not _has_ended(process):
        ready = {descriptor for descriptor, _ in poller.poll()}
        if lifeline in ready:
            return tail
        if wakeup in ready:
            os.read(wakeup, 4096)
        if errors in ready:
            chunk = os.read(errors, 65536)
            tail = (tail + chunk)[-_TAIL_BYTES:]
            if not chunk:
                poller.unregister(errors)
    return tail


def _has_ended(process: int) -> bool:
    return os.waitid(os.P_PID, process, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _reap(process: int, tail: bytes, errors: int) -> ChildDeath:
    os.kill(process, signal.SIGKILL)
    _, status, usage = os.wait4(process, 0)
    swept = kill_descendants()
    os.set_blocking(errors, False)
    try:
        tail = (tail + os.read(errors, 65536))[-_TAIL_BYTES:]
    except BlockingIOError:
        swept = False
    return ChildDeath(
        status=os.waitstatus_to_exitcode(status),
        cpu_s=usage.ru_utime + usage.ru_stime,
        stderr=tail.decode(errors="replace"),
        swept=swept,
    )


def kill_descendants() -> bool:
    """Kill the rest of this process's tree; a pid namespace leaves none. Returns True if nothing is left."""
    until = time.monotonic() + _SWEEP_S
    while time.monotonic() < until:
        try:
            reaped, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return True
        if reaped == 0:
            signal_descendants(signal.SIGKILL)
            time.sleep(0.001)
    return False


def signal_descendants(number: signal.Signals) -> None:
    """Send a signal to every process of this one's tree that there is now."""
    for process in _descendants(os.getpid()):
        _signal(process, number)


def _signal(process: int, number: signal.Signals) -> None:
    try:
        os.kill(process, number)
    except ProcessLookupError:
        return


def _descendants(root: int) -> Iterator[int]:
    children: dict[int, list[int]] = {}
    for process, parent in _all_processes():
        children.setdefault(parent, []).append(process)
    pending = [root]
    while pending:
        for child in children.get(pending.pop(), ()):
            yield child
            pending.append(child)


def _all_processes() -> Iterator[tuple[int, int]]:
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                status = (path / "stat").read_text()
            except OSError:  # It has ended.
                continue
            yield int(path.name), int(status.rpartition(")")[2].split()[1])
