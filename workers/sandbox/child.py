"""The inmate: the process that runs the untrusted work, and how it answers.

On its pipe it writes one byte `READY` once it is shut in, then one frame: a status byte, the length as eight bytes
(big endian), the payload. Whatever follows is not read.
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
from workers.sandbox.isolation import Isolation, IsolationLayerMissing, close_in

READY = b"+"
"""Written once the inmate is shut in, before the first instruction of the work."""
HEADER = struct.Struct(">BQ")
"""Status and length of the payload that follows."""
DETAIL_BYTES = 8192
"""Longest traceback that is sent; its end, where the error is named, is kept."""
_LAST_WORDS_AT = 0.9
# Share of the time left after which the inmate prints where it is.


class FrameStatus(IntEnum):
    """First byte of a frame."""

    RETURNED = 1
    RAISED = 2
    MEMORY = 3


class _Edge:
    """Everything that the work can end with, short of death, becomes a frame; then the process ends."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.reply = b""

    def __enter__(self) -> "_Edge":
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


def live(
    walls: Isolation, limits: SandboxLimits, directory: str, work: Callable[[int], None], ends: tuple[int, int]
) -> None:
    """Be the inmate: settle in, then work. `ends` are the reply pipe and standard error. Does not return."""
    pipe, stderr = ends
    try:
        signal.set_wakeup_fd(-1)
        _redirect(stderr)
        close_all_but(pipe)
        close_in(walls, limits, directory)
        write(pipe, READY)
        work(pipe)
    except (IsolationLayerMissing, OSError) as error:
        write(2, unsettled(error).encode())
    finally:
        os._exit(1)


def serve(function: Callable[[bytes], bytes], request: bytes, until: float, directory: str, pipe: int) -> None:
    """Answer one request on a pipe, by a time of the monotonic clock, and end the process. Does not return."""
    with _Edge(pipe) as edge:
        _forget_parent(directory)
        _tell_where(until)
        edge.reply = function(request)


def unsettled(error: IsolationLayerMissing | OSError) -> str:
    """What kept a jail from being set up, as JSON: the layer (empty if none is to blame) and the reason."""
    return json.dumps([error.layer if isinstance(error, IsolationLayerMissing) else "", str(error)])


def close_all_but(*kept: int) -> None:
    """Close every file descriptor from 3 on but the ones given."""
    for path in list(Path("/proc/self/fd").iterdir()):
        if int(path.name) > 2 and int(path.name) not in kept:
            _close(int(path.name))


def write(descriptor: int, data: bytes) -> None:
    """Write all of it.

    Raises:
        OSError: If nobody reads.
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
    except OSError:  # The one that listed the directory is closed by now.
        return


def _forget_parent(directory: str) -> None:
    gc.freeze()  # The parent's garbage stays where it is: its finalizers are not for this process to run.
    sys.unraisablehook = sys.__unraisablehook__
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
        signal.signal(number, signal.SIG_DFL)
    sys.stdin, sys.stdout, sys.stderr = os.fdopen(0), os.fdopen(1, "w"), os.fdopen(2, "w")
    os.environ.clear()
    os.environ.update(HOME=directory, TMPDIR=directory, CUDA_VISIBLE_DEVICES="", HIP_VISIBLE_DEVICES="")
    tempfile.tempdir = directory


def _tell_where(until: float) -> None:
    """Print where the Python code is, shortly before a deadline ends it and at a crash."""
    stderr = os.dup(2)  # Of its own, should the work point the usual one elsewhere.
    faulthandler.enable(file=stderr)
    faulthandler.register(signal.SIGXCPU, file=stderr)
    left_s = max(0.01, until - time.monotonic())
    # Not `dump_traceback_later`: its thread reads frames that the main thread changes meanwhile, and may crash on them.
    faulthandler.register(signal.SIGALRM, file=stderr)
    signal.setitimer(signal.ITIMER_REAL, left_s * _LAST_WORDS_AT)
