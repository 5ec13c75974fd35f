"""Standard error of a child process: passed on to this process's own, line by line; the last line is kept."""

import os
from contextlib import suppress
from threading import Thread

from workers.line_process import STDERR
from workers.protocol import printable

LAST_S = 1.0
"""Seconds to wait for the last line of a process that has ended; another process may hold its standard error open."""
LINE_CHARS = 400
"""Maximum length of the line that is kept, in characters."""


class ErrorRelay:
    """Relay of one process's standard error. Give `descriptor` to the process, then call `started`."""

    def __init__(self) -> None:
        source, self.descriptor = os.pipe()
        self._last = b""
        self._thread = Thread(target=self._relay, args=(source,), daemon=True)
        self._thread.start()

    def started(self) -> None:
        """Close this process's own copy of the descriptor, so that the relay ends with the process."""
        os.close(self.descriptor)

    def last_line(self) -> str:
        """Return the last line of a process that has ended; empty if it wrote none."""
        self._thread.join(LAST_S)
        return printable(self._last.decode(errors="replace")).strip()[:LINE_CHARS]

    def _relay(self, source: int) -> None:
        with open(source, "rb") as lines:
            for line in lines:
                with suppress(OSError):
                    os.write(STDERR, line)
                self._last = line if line.strip() else self._last
