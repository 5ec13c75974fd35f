"""What this machine offers to build jails with, found out by building some."""

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
# No run of a jail takes a day.
_LIMITS = SandboxLimits(wall_s=10.0, cpu_s=5.0, memory_bytes=2**30, reply_bytes=1024, processes=16)


@functools.cache
def strongest_walls() -> Isolation:
    """The strongest walls that this machine can put up. Tried once a process.

    Raises:
        JailFailed: If no jail can be set up at all.
        JailUnsafe: If a process of a jail can outlive it.
    """
    _remove_leftovers()
    walls = Isolation(frozenset(LAYERS) - ({"nobody"} if os.geteuid() else set()), _hideable())
    while (missing := _missing_layer(walls)) is not None:
        walls = walls.without(missing)
    execute(walls, _leave_orphan, b"", _LIMITS)
    return walls


def _remove_leftovers() -> None:
    """Remove the empty directories of jails whose parents were killed, once they can be nobody's any more."""
    for path in Path(tempfile.gettempdir()).glob(f"{DIRECTORY_PREFIX}*"):
        with contextlib.suppress(OSError):
            if path.stat().st_mtime < time.time() - _LEFTOVER_AGE_S:
                path.rmdir()


def _missing_layer(walls: Isolation) -> str | None:
    try:
        result = execute(walls, _look_around, b"", _LIMITS)
    except IsolationLayerMissing as missing:
        if missing.layer not in walls.layers:
            raise SandboxFailed(str(missing)) from missing
        return missing.layer
    if result.ending is SandboxEnding.RETURNED and not result.reply:
        return None
    if result.ending is SandboxEnding.RETURNED and "nobody" in walls.layers:
        return "nobody"
    raise SandboxFailed(f"a jail that should only look around cannot: {result.reply.decode() or result.detail}")


def _look_around(_: bytes) -> bytes:
    """Read what imports will need; say what cannot be read, as nobody cannot a checkout below a private home."""
    try:
        for directory in _code_directories():
            list(directory.iterdir())
        Path(__file__).read_bytes()
    except OSError as error:
        return str(error).encode(errors="replace")[-_LIMITS.reply_bytes :]
    return b""


def _leave_orphan(request: bytes) -> bytes:
    """Start a process that would outlive everything but a kill of the whole tree; it holds the reply's pipe."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.pause()
        os._exit(0)
    return request


def _code_directories() -> list[Path]:
    return [path for path in map(Path, sys.path) if path.is_dir()]


def _hideable() -> tuple[str, ...]:
    """The home directory, unless something that a jail needs is in it: Python, the code, temporary directories."""
    try:
        home = Path.home().resolve()
    except RuntimeError:  # The user has none.
        return ()
    needed = map(Path, (sys.prefix, sys.base_prefix, sys.executable, __file__, tempfile.gettempdir()))
    inside = any(path.resolve().is_relative_to(home) for path in (*needed, *_code_directories()))
    return () if inside or not home.is_dir() else (str(home),)
