"""The template that a pool's workers fork their executors from, as the pool sees it.

It imports torch and Triton once for all workers. If it has died, its executors have too; the next worker to start
gets another one.
"""

import contextlib
import os
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from workers.safe_python import PYTHON, executor_environment

COMMAND = (*PYTHON, "-m", "workers.executor.template")


class ExecutorTemplate:
    """A template process. It ends with this process, however that ends.

    Use it from the main thread: Linux ends the template with the thread that started it.
    """

    def __init__(self, output: Path | None = None, command: Sequence[str] = COMMAND) -> None:
        """Prepare without starting it.

        Args:
            output: File for its standard error; None for this process's own.
            command: Command that starts it, without its options.
        """
        self._output = output
        self._command = command
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the template; None if it does not run."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def start(self) -> int:
        """Start the template if it does not run. Returns the descriptor through which workers ask it."""
        if self._requests is None or self.pid is None:
            self.close()
            self._requests, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs, self._errors() as errors:
                self._process = subprocess.Popen(
                    (*self._command, "--with-parent", str(os.getpid())),
                    stdin=theirs.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=errors,
                    env=executor_environment(os.environ),
                    start_new_session=True,
                )
        return self._requests.fileno()

    def close(self) -> None:
        """Kill the template with all its executors; it has nothing to finish. Idempotent."""
        if self._requests is not None:
            self._requests.close()
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._requests = self._process = None

    def _errors(self) -> contextlib.AbstractContextManager[IO[bytes] | None]:
        return contextlib.nullcontext(None) if self._output is None else self._output.open("ab")
