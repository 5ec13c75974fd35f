"""The parent's side of a sandbox: starts it, reads the answer under a deadline, classifies the ending."""

import functools
import json
import os
import select
import shutil
import signal
import tempfile
import time
from collections.abc import Callable

from workers.errors import SandboxFailed, SandboxUnsafe
from workers.sandbox import child
from workers.sandbox.base import SandboxEnding, SandboxLimits, SandboxResult
from workers.sandbox.child import DETAIL_BYTES, HEADER, READY, FrameStatus
from workers.sandbox.init import MAP_REQUEST, MAPPED, ChildDeath, ChildPipes, ChildRequest, run_init
from workers.sandbox.isolation import NOBODY, Isolation, IsolationLayerMissing, blame_layer, own_user_namespace
from workers.sandbox.syscalls import fork

DIRECTORY_PREFIX = "reef-sandbox-"
"""Prefix of the names of temporary directories."""
_OVERHEAD = len(READY) + HEADER.size
# Bytes of an answer before its payload.
_EXIT_S = 20.0
# Maximum time between the end of a run and the init process's report; that gives up after 10 s.
_MEMORY_SIGNS = ("bad_alloc", "out of memory", "Cannot allocate memory", "MemoryError")
# Messages of allocators before they abort.


class _Answer:
    """The part of a child's answer that has been read, up to the limit of a reply or of a traceback."""

    def __init__(self, reply_bytes: int) -> None:
        self._data = bytearray()
        self._reply_bytes = reply_bytes

    def feed(self, chunk: bytes) -> None:
        longest = _OVERHEAD + max(self._reply_bytes, DETAIL_BYTES)
        self._data += chunk[: longest + 1 - len(self._data)]

    @property
    def is_ready(self) -> bool:
        return self._data[:1] == READY

    @property
    def length(self) -> int | None:
        """Length of the whole answer in bytes, according to its header."""
        if len(self._data) < _OVERHEAD:
            return None
        _, payload = HEADER.unpack_from(self._data, len(READY))
        return _OVERHEAD + int(payload)

    @property
    def is_flooded(self) -> bool:
        if self.length is None:
            return False
        return self.length > _OVERHEAD + (self._reply_bytes if self.status == FrameStatus.RETURNED else DETAIL_BYTES)

    @property
    def is_complete(self) -> bool:
        return self.length is not None and len(self._data) >= self.length

    @property
    def status(self) -> int:
        return self._data[len(READY)]

    @property
    def payload(self) -> bytes:
        return bytes(self._data[_OVERHEAD : self.length])


class _Run:
    """One run, from fork to exit."""

    def __init__(self, request: ChildRequest) -> None:
        self.request = request
        self.answer = _Answer(request.limits.reply_bytes)
        self.started = time.monotonic()
        self.timed_out = False
        self._report = b""
        self._reply_end, reply = os.pipe()
        self._report_end, report = os.pipe()
        lifeline, self._lifeline_end = os.pipe()
        self._init = fork()
        if self._init == 0:
            run_init(request, ChildPipes(reply, report, lifeline))
        for descriptor in (reply, report, lifeline):
            os.close(descriptor)

    def finish(self) -> ChildDeath:
        """Read until the answer is complete, the init process reports or time is up; then end the tree.

        Raises:
            SandboxFailed: If the init process is lost.
            SandboxUnsafe: If a process of the tree may be alive.
        """
        try:
            self._read(self.started + self.request.limits.wall_s)
            self.timed_out = not (self.answer.is_complete or self.answer.is_flooded or self._report)
        finally:
            os.close(self._lifeline_end)
            death = self._await_death()
        if not death.swept or not self._reply_is_closed():
            raise SandboxUnsafe("a process of the sandbox is still alive after its end")
        return death

    def close(self) -> None:
        os.close(self._reply_end)
        os.close(self._report_end)

    def _read(self, until: float) -> None:
        poller = select.poll()
        for descriptor in (self._reply_end, self._report_end):
            poller.register(descriptor, select.POLLIN)
        while (left_s := until - time.monotonic()) > 0:
            ready = {descriptor for descriptor, _ in poller.poll(left_s * 1000)}
            if self._reply_end in ready and not self._read_reply():
                poller.unregister(self._reply_end)
            if self.answer.is_complete or self.answer.is_flooded:
                return
            if self._report_end in ready and self._reply_end not in ready and self._read_report():
                return

    def _read_reply(self) -> bool:
        chunk = os.read(self._reply_end, 1 << 20)
        self.answer.feed(chunk)
        return bool(chunk)

    def _read_report(self) -> bool:
        """Read from the init process. Returns True if that was its last message."""
        chunk = os.read(self._report_end, 65536)
        if chunk != MAP_REQUEST:
            self._report += chunk
            return True
        child.write(self._lifeline_end, MAPPED if self._map_to_nobody() else b"-")
        return False

    def _map_to_nobody(self) -> bool:
        try:
            own_user_namespace(self._init, NOBODY, NOBODY)
        except OSError:
            return False
        return True

    def _await_death(self) -> ChildDeath:
        poller = select.poll()
        poller.register(self._report_end, select.POLLIN)
        chunk = b"?"
        while chunk:
            if not poller.poll(_EXIT_S * 1000):
                os.kill(self._init, signal.SIGKILL)
                os.waitpid(self._init, 0)
                raise SandboxUnsafe(f"the sandbox's init process did not exit within {_EXIT_S:g} s")
            chunk = os.read(self._report_end, 65536)
            self._report += chunk
        os.waitpid(self._init, 0)
        try:
            return ChildDeath(**json.loads(self._report.removeprefix(MAP_REQUEST)))
        except ValueError:
            raise SandboxFailed("the sandbox's init process exited without a report") from None

    def _reply_is_closed(self) -> bool:
        """True if no process holds the reply pipe any more; a surviving orphan would hold it."""
        os.set_blocking(self._reply_end, False)
        try:
            while os.read(self._reply_end, 1 << 20):
                continue
        except BlockingIOError:
            return False
        return True


def execute(
    isolation: Isolation, function: Callable[[bytes], bytes], request: bytes, limits: SandboxLimits
) -> SandboxResult:
    """Run a function in a sandbox with a given isolation.

    Raises:
        IsolationLayerMissing: If a layer of the isolation cannot be set up.
        SandboxFailed: If the sandbox cannot be set up for another reason.
        SandboxUnsafe: If one of its processes may be alive afterwards.
    """
    directory = tempfile.mkdtemp(prefix=DIRECTORY_PREFIX)
    try:
        if "nobody" in isolation.layers:
            with blame_layer("nobody"):
                os.chown(directory, NOBODY, NOBODY)
        work = functools.partial(child.serve, function, request, time.monotonic() + limits.wall_s, directory)
        run = _Run(ChildRequest(isolation, limits, directory, work))
        try:
            death = run.finish()
        finally:
            run.close()
        return _judge(run, death)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _judge(run: _Run, death: ChildDeath) -> SandboxResult:
    answer = run.answer
    if not answer.is_ready and not run.timed_out:
        _raise_setup_failure(death)
    ending, detail = _ending(run, death)
    reply = answer.payload if ending is SandboxEnding.RETURNED else b""
    return SandboxResult(ending, reply, detail, time.monotonic() - run.started)


def _ending(run: _Run, death: ChildDeath) -> tuple[SandboxEnding, str]:
    answer, limits = run.answer, run.request.limits
    if answer.is_flooded:
        return SandboxEnding.FLOODED, f"answers with more than {limits.reply_bytes} bytes"
    if answer.is_complete:
        return _answered(answer, limits)
    if run.timed_out:
        return SandboxEnding.TIMEOUT, f"did not end within {limits.wall_s:g} s\n{death.stderr}".rstrip()
    if death.cpu_s >= limits.cpu_s:
        return SandboxEnding.TIMEOUT, f"used more than {limits.cpu_s:g} s of processor time\n{death.stderr}".rstrip()
    return _unanswered(death)


def _answered(answer: _Answer, limits: SandboxLimits) -> tuple[SandboxEnding, str]:
    if answer.status == FrameStatus.RETURNED:
        return SandboxEnding.RETURNED, ""
    if answer.status == FrameStatus.RAISED:
        return SandboxEnding.RAISED, answer.payload.decode(errors="replace")
    return SandboxEnding.MEMORY, f"needs more than {limits.memory_bytes} bytes of memory"


def _unanswered(death: ChildDeath) -> tuple[SandboxEnding, str]:
    assert death.status is not None
    if death.status == -signal.SIGKILL:
        return SandboxEnding.MEMORY, "was killed by SIGKILL, as the kernel does when memory runs out"
    if any(sign in death.stderr for sign in _MEMORY_SIGNS):
        return SandboxEnding.MEMORY, f"ran out of memory: {death.stderr}"
    if death.status < 0:
        name = signal.Signals(-death.status).name
        return SandboxEnding.CRASHED, f"ended by {name}\n{death.stderr}".rstrip()
    return SandboxEnding.CRASHED, f"ended with exit status {death.status} and no answer\n{death.stderr}".rstrip()


def _raise_setup_failure(death: ChildDeath) -> None:
    try:
        layer, reason = json.loads(death.stderr)
    except ValueError:
        raise SandboxFailed(f"the sandbox's child exited before it was confined: {death.stderr}") from None
    if layer:
        raise IsolationLayerMissing(layer, OSError(reason))
    raise SandboxFailed(f"the sandbox could not be set up: {reason}")
