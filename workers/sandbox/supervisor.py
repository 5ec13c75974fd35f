"""The warden: the parent's side of a jail. Starts it, reads the answer under a deadline, judges how it ended."""

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
from workers.sandbox.init import MAP_REQUEST, MAPPED, ChildDeath, ChildPipes, ChildRequest, keep
from workers.sandbox.isolation import NOBODY, Isolation, IsolationLayerMissing, own_user_namespace, putting_up
from workers.sandbox.syscalls import fork

DIRECTORY_PREFIX = "reef-jail-"
"""What the temporary directories of jails are called."""
_OVERHEAD = len(READY) + HEADER.size
# Bytes of an answer before its payload.
_BURIAL_S = 20.0
# Until then the keeper must have reported after the parent's word; it gives up itself after ten.
_MEMORY_SIGNS = ("bad_alloc", "out of memory", "Cannot allocate memory", "MemoryError")
# What allocators print before they abort.


class _Answer:
    """What has been read of an inmate's answer, never more than the limit: that of a reply, or that of a traceback."""

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
        """Bytes of the whole answer as its header announces them."""
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
    """One run, from fork to reaped."""

    def __init__(self, order: ChildRequest) -> None:
        self.order = order
        self.answer = _Answer(order.limits.reply_bytes)
        self.started = time.monotonic()
        self.timed_out = False
        self._report = b""
        self._reply_end, reply = os.pipe()
        self._report_end, report = os.pipe()
        lifeline, self._lifeline_end = os.pipe()
        self._keeper = fork()
        if self._keeper == 0:
            keep(order, ChildPipes(reply, report, lifeline))
        for descriptor in (reply, report, lifeline):
            os.close(descriptor)

    def finish(self) -> ChildDeath:
        """Read until the answer is there, the keeper reports or time is up; then end the tree.

        Raises:
            JailFailed: If the keeper is lost.
            JailUnsafe: If something of the tree may be alive.
        """
        try:
            self._read(self.started + self.order.limits.wall_s)
            self.timed_out = not (self.answer.is_complete or self.answer.is_flooded or self._report)
        finally:
            os.close(self._lifeline_end)
            death = self._await_death()
        if not death.swept or not self._reply_is_closed():
            raise SandboxUnsafe("a process of the jail outlived it")
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
        """Take in what the keeper says. Says whether that was its last word."""
        chunk = os.read(self._report_end, 65536)
        if chunk != MAP_REQUEST:
            self._report += chunk
            return True
        child.write(self._lifeline_end, MAPPED if self._map_to_nobody() else b"-")
        return False

    def _map_to_nobody(self) -> bool:
        try:
            own_user_namespace(self._keeper, NOBODY, NOBODY)
        except OSError:
            return False
        return True

    def _await_death(self) -> ChildDeath:
        poller = select.poll()
        poller.register(self._report_end, select.POLLIN)
        chunk = b"?"
        while chunk:
            if not poller.poll(_BURIAL_S * 1000):
                os.kill(self._keeper, signal.SIGKILL)
                os.waitpid(self._keeper, 0)
                raise SandboxUnsafe("the jail's keeper does not end")
            chunk = os.read(self._report_end, 65536)
            self._report += chunk
        os.waitpid(self._keeper, 0)
        try:
            return ChildDeath(**json.loads(self._report.removeprefix(MAP_REQUEST)))
        except ValueError:
            raise SandboxFailed("the jail's keeper ended without a word") from None

    def _reply_is_closed(self) -> bool:
        """Whether no process holds the reply pipe any more; an orphan that survived would."""
        os.set_blocking(self._reply_end, False)
        try:
            while os.read(self._reply_end, 1 << 20):
                continue
        except BlockingIOError:
            return False
        return True


def execute(
    walls: Isolation, function: Callable[[bytes], bytes], request: bytes, limits: SandboxLimits
) -> SandboxResult:
    """Run a function in a jail with the walls given.

    Raises:
        LayerMissing: If a layer of the walls cannot be put up.
        JailFailed: If the jail cannot be set up for another reason.
        JailUnsafe: If something of it may be alive afterwards.
    """
    directory = tempfile.mkdtemp(prefix=DIRECTORY_PREFIX)
    try:
        if "nobody" in walls.layers:
            with putting_up("nobody"):
                os.chown(directory, NOBODY, NOBODY)
        work = functools.partial(child.serve, function, request, time.monotonic() + limits.wall_s, directory)
        run = _Run(ChildRequest(walls, limits, directory, work))
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
        _raise_unsettled(death)
    ending, detail = _ending(run, death)
    reply = answer.payload if ending is SandboxEnding.RETURNED else b""
    return SandboxResult(ending, reply, detail, time.monotonic() - run.started)


def _ending(run: _Run, death: ChildDeath) -> tuple[SandboxEnding, str]:
    answer, limits = run.answer, run.order.limits
    if answer.is_flooded:
        return SandboxEnding.FLOODED, f"answers with more than {limits.reply_bytes} bytes"
    if answer.is_complete:
        return _spoken(answer, limits)
    if run.timed_out:
        return SandboxEnding.TIMEOUT, f"did not end within {limits.wall_s:g} s\n{death.stderr}".rstrip()
    if death.cpu_s >= limits.cpu_s:
        return SandboxEnding.TIMEOUT, f"used more than {limits.cpu_s:g} s of processor time\n{death.stderr}".rstrip()
    return _unspoken(death)


def _spoken(answer: _Answer, limits: SandboxLimits) -> tuple[SandboxEnding, str]:
    if answer.status == FrameStatus.RETURNED:
        return SandboxEnding.RETURNED, ""
    if answer.status == FrameStatus.RAISED:
        return SandboxEnding.RAISED, answer.payload.decode(errors="replace")
    return SandboxEnding.MEMORY, f"needs more than {limits.memory_bytes} bytes of memory"


def _unspoken(death: ChildDeath) -> tuple[SandboxEnding, str]:
    assert death.status is not None
    if death.status == -signal.SIGKILL:
        return SandboxEnding.MEMORY, "was killed by SIGKILL, as the kernel does when memory runs out"
    if any(sign in death.stderr for sign in _MEMORY_SIGNS):
        return SandboxEnding.MEMORY, f"ran out of memory: {death.stderr}"
    if death.status < 0:
        name = signal.Signals(-death.status).name
        return SandboxEnding.CRASHED, f"ended by {name}\n{death.stderr}".rstrip()
    return SandboxEnding.CRASHED, f"ended with exit status {death.status} and no answer\n{death.stderr}".rstrip()


def _raise_unsettled(death: ChildDeath) -> None:
    try:
        layer, reason = json.loads(death.stderr)
    except ValueError:
        raise SandboxFailed(f"the jail's inmate ended before it was shut in: {death.stderr}") from None
    if layer:
        raise IsolationLayerMissing(layer, OSError(reason))
    raise SandboxFailed(f"the jail could not be set up: {reason}")
