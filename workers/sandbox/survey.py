"""Survey of the isolation layers that this machine offers, by trying them in sandboxes."""

import contextlib
import functools
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from workers.errors import SandboxFailed
from workers.sandbox.base import SandboxEnding, SandboxLimits
from workers.sandbox.isolation import LAYERS, Isolation, IsolationLayerMissing
from workers.sandbox.supervisor import DIRECTORY_PREFIX, execute

_LEFTOVER_AGE_S = 24 * 3600.0
# Longer than any run of a sandbox.
_LIMITS = SandboxLimits(wall_s=10.0, cpu_s=5.0, memory_bytes=2**30, reply_bytes=1024, processes=16)


@functools.cache
def strongest_isolation() -> Isolation:
    """Return the strongest isolation that this machine offers. It is tried once per process.

    Raises:
        SandboxFailed: If no sandbox can be set up at all.
        SandboxUnsafe: If a process of a sandbox can outlive it.
    """
    _remove_leftovers()
    isolation = Isolation(frozenset(LAYERS) - ({"nobody"} if os.geteuid() else set()), _hideable())
    while (missing := _missing_layer(isolation)) is not None:
        isolation = isolation.without(missing)
    execute(isolation, _leave_orphan, b"", _LIMITS)
    return isolation


def _remove_leftovers() -> None:
    """Remove the empty directories of sandboxes whose parents were killed, once no run can still use them."""
    for path in Path(tempfile.gettempdir()).glob(f"{DIRECTORY_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _LEFTOVER_AGE_S:
                path.rmdir()


def _missing_layer(isolation: Isolation) -> str | None:
    try:
        result = execute(isolation, _check_readable, b"", _LIMITS)
    except IsolationLayerMissing as missing:
        if missing.layer not in isolation.layers:
            raise SandboxFailed(str(missing)) from missing
        return missing.layer
    if result.ending is SandboxEnding.RETURNED and not result.reply:
        return None
    if result.ending is SandboxEnding.RETURNED and "nobody" in isolation.layers:
        return "nobody"
    raise SandboxFailed(f"a sandbox cannot read the code: {result.reply.decode() or result.detail}")


def _check_readable(_: bytes) -> bytes:
    """Read the files that imports need. Returns the error, if any: user nobody cannot read below a private home."""
    try:
        for directory in _code_directories():
            list(directory.iterdir())
        Path(__file__).read_bytes()
    except OSError as error:
        return str(error).encode(errors="replace")[-_LIMITS.reply_bytes :]
    return b""


def _leave_orphan(request: bytes) -> bytes:
    """Start a process that only a kill of the whole tree ends; it holds the reply pipe."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    return request


def _code_directories() -> list[Path]:
    return [path for path in map(Path, sys.path) if path.is_dir()]


def _hideable() -> tuple[str, ...]:
    """Return the home directory, unless it holds what a sandbox needs: Python, the code, temporary directories."""
    try:
        home = Path.home().resolve()
    except RuntimeError:  # The user has none.
        return ()
    needed = map(Path, (sys.prefix, sys.base_prefix, sys.executable, __file__, tempfile.gettempdir()))
    inside = any(path.resolve().is_relative_to(home) for path in (*needed, *_code_directories()))
    return () if inside or not home.is_dir() else (str(home),)
