"""Assembling several kernels at once, in processes that are forked from the executor before it is busy."""

import os
import signal
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeAlias, TypeVar

from workers import sandbox
from workers.assembler import Assembler, AssemblyRefused, MachineCode, assemble_kernel, ptxas_of, read_own_tools
from workers.errors import WorkerError
from workers.protocol import Bundle, Kernel, PtxasTool
from workers.sandbox.syscalls import die_with_parent

MAX_PROCESSES = 12
"""Maximum number of processes. Assembling a kernel takes 0.1 s, and bundles of the catalogue have nine kernels on
average."""
KEPT_KERNELS = 512
"""Kernels whose machine code is kept, a few tens of kilobytes each: variants and incumbents share many."""

NICENESS = 2
"""Added to the niceness of a process: the processes that use the card come first, and traces last."""

_Key: TypeAlias = tuple[str, PtxasTool | None]
# Digest of a kernel, and the ptxas that assembles it.
Item = TypeVar("Item")
Result = TypeVar("Result")


class Assemblers:
    """Processes that assemble kernels, and compile our own at the start; one per core at most."""

    def __init__(self) -> None:
        """Probe the sandbox and read the installed ptxas, so that the processes need not, and start them.

        Raises:
            SandboxFailed: If no sandbox can be set up here.
        """
        sandbox.probe()
        read_own_tools()
        processes = min(len(os.sched_getaffinity(0)), MAX_PROCESSES)
        self._pool = ProcessPoolExecutor(processes, get_context("fork"), initializer=_begin)
        self._pool.submit(os.getpid).result()  # Forks all processes now, before the executor holds secrets.
        self._kept: OrderedDict[_Key, Future[MachineCode]] = OrderedDict()

    def start(self, bundle: Bundle) -> Assembler:
        """Start assembling all kernels of a bundle. Returns a function that waits for one of them."""
        tool = ptxas_of(bundle)
        begun = {digest: self._begin((digest, tool), kernel) for digest, kernel in bundle.kernels.items()}

        def wait(kernel: Kernel) -> MachineCode:
            try:
                return begun[kernel.digest].result()
            except (AssemblyRefused, WorkerError):
                self._kept.pop((kernel.digest, tool), None)
                raise

        return wait

    def is_done(self, bundle: Bundle) -> bool:
        """Return True if all kernels of a bundle are assembled or refused."""
        known = (self._kept.get((digest, ptxas_of(bundle))) for digest in bundle.kernels)
        return all(found is not None and found.done() for found in known)

    def spread(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Do work on each item in these processes; yields the results in order."""
        return self._pool.map(work, items)

    def close(self) -> None:
        """End the processes. Idempotent."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, key: _Key, kernel: Kernel) -> Future[MachineCode]:
        """Return the machine code of a kernel, known or under way."""
        found = self._kept.get(key)
        if found is None or found.cancelled():
            found = self._kept[key] = self._pool.submit(assemble_kernel, kernel, key[1])
        self._kept.move_to_end(key)
        if len(self._kept) > KEPT_KERNELS:
            self._kept.popitem(last=False)
        return found


def _begin() -> None:
    """Prepare a process."""
    die_with_parent(signal.SIGKILL)
    os.nice(NICENESS)
    sandbox.expect_commands()
