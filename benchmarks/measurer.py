"""A process that measures one variant after the other, and has the next ones assembled meanwhile.

Unlike a worker's bench it is told of jobs ahead of time, and measures briefly where times are measured.
"""

import os
from collections import deque
from multiprocessing import get_context
from multiprocessing.connection import Connection

from workers.devices import open_device
from workers.devices.cuda import CudaDevice
from workers.errors import WorkerError
from workers.protocol import Device, Failure, MeasureJob, Report

AHEAD = 3
"""Jobs that the process knows besides the one it does."""
OPEN_S = 300.0
"""Seconds until the card is open, on a host that has just started."""
SILENT_S = 60.0
"""Seconds for one job, after which the process is given up on; honest ones take under one."""


class Measurer:
    """The process as its owner sees it. Answers come in the order of the jobs."""

    def __init__(self, device: Device, card: int = 0) -> None:
        """Start it, in the environment that the device needs.

        Raises:
            WorkerError: If it cannot be started.
        """
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        if device.kind == "model":
            os.environ["TRITON_INTERPRET"] = "1"
        context = get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, device, card))
        self._process.start()
        os.environ.pop("TRITON_INTERPRET", None)
        theirs.close()
        self.waiting = 0
        """Jobs that it has not answered."""
        said = self._link.recv() if self._link.poll(OPEN_S) else "it does not answer"
        if not isinstance(said, dict):
            self.close()
            raise WorkerError(f"nothing can be measured: {said}")
        self.versions: dict[str, str] = said

    @property
    def has_room(self) -> bool:
        """Whether it may be told of another job."""
        return self.waiting <= AHEAD

    def send(self, job: MeasureJob) -> None:
        """Tell it of a job.

        Raises:
            OSError: If it is gone.
        """
        self._link.send(job)
        self.waiting += 1

    def poll(self, timeout_s: float) -> Report | Failure | None:
        """Its next answer, if there is one in time.

        Raises:
            EOFError: If it is gone.
        """
        if not self.waiting or not self._link.poll(timeout_s):
            return None
        self.waiting -= 1
        answer: Report | Failure = self._link.recv()
        return answer

    def close(self) -> None:
        """End it. Idempotent."""
        self._link.close()
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


def _work(link: Connection, device: Device, card: int) -> None:
    """What the process does until nobody listens any more."""
    try:
        bench = open_device(device, "landscape", card)
    except WorkerError as error:
        link.send(str(error))
        return
    link.send(bench.versions())
    known: deque[MeasureJob] = deque()
    try:
        while True:
            while not known or link.poll():
                known.append(link.recv())
                bench.foresee(known[-1].bundle)
            job = known.popleft()
            try:
                link.send(bench.measure_briefly(job) if isinstance(bench, CudaDevice) else bench.measure(job))
            except WorkerError as error:
                link.send(Failure(error=f"{type(error).__name__}: {error}", transient=True))
    except (EOFError, OSError):
        bench.close()
