"""Client of `inductor_compiler`: kernels of baselines are compiled on spare cores while a search has the card."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

from workers.protocol import Graph, Operator
from workers.protocol.base import WireModel

NICENESS = 15
"""Added to the niceness: a search's own work comes first."""


class CompileRequest(WireModel):
    """A reference whose kernels are compiled."""

    operator: Operator
    graph: Graph


class CompileAhead:
    """The process that compiles ahead. One that fails is not missed: everything is compiled by those that need it.

    Args:
        target: Target of the kernels.
        processes: Number of kernels compiled at the same time; 0 compiles nothing ahead.

    Attributes:
        environment: Variables of processes that are to find the kernels.
    """

    def __init__(self, target: str, processes: int) -> None:
        self._folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self._cache = Path(self._folder.name) / "triton"
        self._cache.mkdir()
        self._asked: set[tuple[str, str]] = set()
        self._process: subprocess.Popen[bytes] | None = None
        self._writer = ThreadPoolExecutor(1)
        self.environment = {"TRITON_CACHE_DIR": str(self._cache)}
        if processes:
            mine = {
                "CUDA_VISIBLE_DEVICES": "",
                "TORCHINDUCTOR_CACHE_DIR": f"{self._folder.name}/inductor",
                "TORCHINDUCTOR_COMPILE_THREADS": "1",
            }
            command = [sys.executable, "-m", "benchmarks.inductor_compiler", "--target", target]
            self._process = subprocess.Popen(
                ["nice", "-n", str(NICENESS), *command, "--processes", str(processes)],
                env=os.environ | self.environment | mine,
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )

    @contextmanager
    def held(self) -> Iterator[None]:
        """Stop compiling until the context ends: nothing of it may disturb a timing."""
        self._signal(signal.SIGSTOP)
        try:
            yield
        finally:
            self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, number)

    @property
    def kernels(self) -> int:
        """Number of kernels in the cache so far, whoever compiled them."""
        return sum(1 for _ in self._cache.glob("*/*.cubin"))

    def ask(self, operator: Operator, graph: Graph) -> None:
        """Compile for a reference after what was asked before, once."""
        key = operator.digest, graph.shape.key
        if self._process is None or key in self._asked:
            return
        self._asked.add(key)
        request = CompileRequest(operator=operator, graph=graph)
        # A pipe holds 64 KiB, less than the graph of a large model, and the process reads on when it has compiled.
        self._writer.submit(self._say, request.model_dump_json().encode() + b"\n")

    def _say(self, line: bytes) -> None:
        assert self._process is not None and self._process.stdin is not None
        with suppress(OSError):  # It has ended.
            while line:
                line = line[self._process.stdin.write(line) :]

    def close(self) -> None:
        """End it and remove the kernels. Idempotent."""
        if self._process is not None and self._process.stdin is not None:
            self._signal(signal.SIGKILL)
            self._process.wait()
            self._writer.shutdown(cancel_futures=True)  # A write that waits fails now.
            self._process.stdin.close()
        self._folder.cleanup()
