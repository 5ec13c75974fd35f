"""The side of a process that asks the warm server for a fork, and then stands in for it until it ends."""

import ctypes
import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(__file__).parent
DOOR = FOLDER / "door"
TIE = "--with-parent"
"""The option that names the process to end with: the stand-in does, and its fork with it."""
SET_PDEATHSIG = 1
"""Of prctl, as in linux/prctl.h."""
PATIENCE_S = 30.0
"""Seconds until the server listens; it imports afterwards."""


def hand_over(module: str, arguments: list[str]) -> None:
    """Have the server fork, and end as the fork ends. Returns where there is no server to be had."""
    if TIE in arguments:
        at = arguments.index(TIE)
        _tie_to(int(arguments[at + 1]))
        arguments = arguments[:at] + arguments[at + 2 :]
    inherited = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    inherited = [number for number in inherited if _is_inheritable(number)]
    try:
        link = _connected()
    except OSError:
        return
    request = {
        "module": module,
        "arguments": arguments,
        "folder": str(Path.cwd()),
        "environment": dict(os.environ),
        "descriptors": inherited,
    }
    body = json.dumps(request).encode()
    socket.send_fds(link, [struct.pack("I", len(body))], inherited)
    link.sendall(body)
    _end_as(link.recv(4))  # Holds the files as well: whoever reads hears of an end when there is a status.


def _tie_to(parent: int) -> None:
    ctypes.CDLL(None).prctl(SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _is_inheritable(number: int) -> bool:
    try:
        return os.get_inheritable(number)
    except OSError:  # What listed them is closed again.
        return False


def _connected() -> socket.socket:
    if FOLDER.stat().st_uid != os.geteuid():
        raise PermissionError("the server is another user's")
    with (FOLDER / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        until = time.monotonic() + PATIENCE_S
        started = None
        while True:
            link = socket.socket(socket.AF_UNIX)
            try:
                link.connect(str(DOOR))
                return link
            except OSError:
                link.close()
                if time.monotonic() > until or (started is not None and started.poll() is not None):
                    raise
            if started is None:
                started = _start()
            time.sleep(0.02)


def _start() -> "subprocess.Popen[bytes]":
    DOOR.unlink(missing_ok=True)
    command = (sys.executable, "-P", str(FOLDER / "warm_server.py"))
    with (FOLDER / "server.log").open("ab") as log:
        return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def _end_as(told: bytes) -> None:
    status = struct.unpack("i", told)[0] if told else signal.SIGKILL
    if os.WIFSIGNALED(status):
        if os.WTERMSIG(status) != signal.SIGKILL:
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(os.waitstatus_to_exitcode(status))
