"""The sandboxed child: the process that runs the untrusted work, and the format of its answer.

On its pipe it writes one byte `READY` once it is confined, then one frame: a status byte, the length as eight bytes
(big endian), the payload. Any further bytes are ignored.
"""

import faulthandler
import gc
import json
import os
import signal
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path
from types import TracebackType

from workers.sandbox.base import SandboxLimits
from workers.sandbox.isolation import Isolation, IsolationLayerMissing, confine

READY = b"+"
"""Byte written once the child is confined, before the first instruction of the work."""
HEADER = struct.Struct(">BQ")
"""Status and length of the payload that follows."""
DETAIL_BYTES = 8192
"""Maximum length of a traceback; its end, which names the error, is kept."""
_TRACEBACK_AT = 0.9
# Share of the remaining time after which the child prints its traceback.


class FrameStatus(IntEnum):
    """First byte of a frame."""

    RETURNED = 1
    RAISED = 2
    MEMORY = 3


class _ReplyFrame:
    """Context that turns the work's result or exception into a frame, then ends the process."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.reply = b""

    def __enter__(self) -> "_ReplyFrame":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        try:
            status, payload = self._frame(error)
            write(self.pipe, HEADER.pack(status, len(payload)))
            write(self.pipe, payload)
        finally:
            os._exit(0)

    def _frame(self, error: BaseException | None) -> tuple[FrameStatus, bytes]:
        if error is None:
            return FrameStatus.RETURNED, self.reply
        if isinstance(error, MemoryError):
            return FrameStatus.MEMORY, b""
        text = "".join(traceback.format_exception(error))
        return FrameStatus.RAISED, text.encode(errors="replace")[-DETAIL_BYTES:]


def run_child(
    isolation: Isolation, limits: SandboxLimits, directory: str, work: Callable[[int], None], ends: tuple[int, int]
) -> None:
    """Confine this process, then work. `ends` are the reply pipe and standard error. Does not return."""
    pipe, stderr = ends
    try:
        signal.set_wakeup_fd(-1)
        _redirect(stderr)
        close_all_but(pipe)
        confine(isolation, limits, directory)
        write(pipe, READY)
        work(pipe)
    except (IsolationLayerMissing, OSError) as error:
        write(2, setup_failure(error).encode())
    finally:
        os._exit(1)


def serve(function: Callable[[bytes], bytes], request: bytes, until: float, directory: str, pipe: int) -> None:
    """Answer one request on a pipe before a time of the monotonic clock, then end the process. Does not return."""
    with _ReplyFrame(pipe) as edge:
        _forget_parent(directory)
        _work_alone()
        _schedule_traceback(until)
        edge.reply = function(request)


def setup_failure(error: IsolationLayerMissing | OSError) -> str:
    """Return the reason why a sandbox was not set up, as JSON: the layer (empty if none is to blame) and the error."""
    return json.dumps([error.layer if isinstance(error, IsolationLayerMissing) else "", str(error)])


def close_all_but(*kept: int) -> None:
    """Close every file descriptor from 3 up, except those given."""
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) > 2 and int(path.name) not in kept:
            _close(int(path.name))


def write(descriptor: int, data: bytes) -> None:
    """Write all of the data.

    Raises:
        OSError: If the reading end is closed.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _redirect(stderr: int) -> None:
    null = os.open(os.devnull, os.O_RDWR)
    for source, target in ((null, 0), (null, 1), (stderr, 2)):
        os.dup2(source, target)


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:  # The descriptor that listed the directory is closed already.
        return


def _forget_parent(directory: str) -> None:
    gc.freeze()  # This process must not run the finalizers of the parent's garbage.
    sys.unraisablehook = sys.__unraisablehook__
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(HOME=directory, TMPDIR=directory, CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    tempfile.tempdir = directory


def _work_alone() -> None:
    """Keep torch from its thread pool: the fork left the threads behind, and a product would wait for them for ever."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _schedule_traceback(until: float) -> None:
    """Print the Python traceback at a crash and shortly before the deadline."""
    stderr = os.dup(2)  # A copy, because the work may redirect descriptor 2.
    faulthandler.enable(file=stderr)
    faulthandler.register(signal.SIGXCPU, file=stderr)
    left_s = max(0.01, until - time.monotonic())
    # Not `dump_traceback_later`: its thread may crash on frames that the main thread changes at the same time.
    faulthandler.register(signal.SIGALRM, file=stderr)
    signal.setitimer(signal.ITIMER_REAL, left_s * _TRACEBACK_AT)
