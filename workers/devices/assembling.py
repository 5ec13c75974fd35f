"""Assembling several kernels at once, in processes that are forked from the bench before it is busy."""

import os
import signal
from collections import OrderedDict
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context

from workers import jail
from workers.assembler import Assembler, MachineCode, assemble_kernel
from workers.jail.kernel import die_with_parent
from workers.protocol import Bundle, Kernel

MOST_PROCESSES = 8
"""Assembling a kernel takes 0.1 s, and bundles of the catalogue have nine kernels on average."""
KEPT_KERNELS = 512
"""Kernels whose machine code is remembered, a few tens of kilobytes each: variants and incumbents share many."""


class Assemblers:
    """A few processes that assemble kernels, as many as there are cores for."""

    def __init__(self) -> None:
        """Survey the jail, so that the processes need not, and start them.

        Raises:
            JailFailed: If no jail can be set up here.
        """
        jail.probe()
        cores = len(os.sched_getaffinity(0))
        self._pool = ProcessPoolExecutor(
            min(cores, MOST_PROCESSES), get_context("fork"), initializer=die_with_parent, initargs=(signal.SIGKILL,)
        )
        self._pool.submit(os.getpid).result()  # Starts all of them now, while the bench holds nothing they should not.
        self._known: OrderedDict[str, Future[MachineCode]] = OrderedDict()

    def start(self, bundle: Bundle) -> Assembler:
        """Begin with all kernels of a bundle that are not known or under way; what is returned waits for one of them.

        Whoever starts a bundle early finds it done later.
        """
        started = {digest: self._begin(digest, kernel) for digest, kernel in bundle.kernels.items()}

        def wait(kernel: Kernel) -> MachineCode:
            return started[kernel.digest].result()

        return wait

    def close(self) -> None:
        """End the processes. Idempotent."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def _begin(self, digest: str, kernel: Kernel) -> Future[MachineCode]:
        """A kernel's machine code, now or later. What failed is tried again."""
        known = self._known.get(digest)
        if known is None or (known.done() and known.exception() is not None):
            known = self._known[digest] = self._pool.submit(assemble_kernel, kernel)
        self._known.move_to_end(digest)
        if len(self._known) > KEPT_KERNELS:
            self._known.popitem(last=False)
        return known
