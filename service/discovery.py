"""Discovery of a service on this machine: while it serves, a file in its data folder has its address.

The service holds a lock on the file, so a file that a killed service left behind counts for nothing.
"""

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path

FILE = "service.json"
"""Name of the file in the data folder; only its owner may read it."""


@contextlib.contextmanager
def discoverable(folder: Path, url: str) -> Iterator[None]:
    """Let commands on this data folder find a service, for the time of the block."""
    path = folder / FILE
    path.unlink(missing_ok=True)  # A new file, so that nobody else can have it open.
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        os.write(descriptor, json.dumps({"url": url}).encode())
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)


def find_service(folder: Path) -> str | None:
    """Return the address of the service that serves a data folder now; None if there is none."""
    try:
        with (folder / FILE).open("rb") as file:
            if os.fstat(file.fileno()).st_uid != os.getuid():
                return None  # Another user could send our requests, and our token, anywhere.
            if not _is_locked(file.fileno()):
                return None
            found = json.load(file)
    except (OSError, ValueError):
        return None
    url = found.get("url") if isinstance(found, dict) else None
    return url if isinstance(url, str) else None


def _is_locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False
