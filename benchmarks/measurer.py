"""A process that measures one variant after the other, and has the next ones assembled meanwhile.

Unlike a worker's bench it is told of several jobs ahead of time and takes whichever is assembled first, and where times
are measured it does so with as few pairs as there can be.
"""

import os
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from multiprocessing.connection import Connection

from workers.devices import open_device
from workers.devices.cuda import CudaDevice
from workers.errors import WorkerError
from workers.executor import REST_S
from workers.protocol import FIRST_CARD, CardShare, Device, ExecutorFailure, MeasureJob, Report, TracedVariant

AHEAD = 32
"""Jobs that the process knows besides the one it does: a kernel may take seconds to assemble, and others go first.

On an H200, when it knew 8, a tenth of a landscape's bundles took two thirds of its time.
"""
LOOK_S = 0.005
"""Seconds between two looks whether a job's kernels are assembled."""
PATIENCE_S = 2.0
"""Seconds after which the oldest job is done though it is not prepared: what was assembled for it may be forgotten."""
OPEN_S = 300.0
"""Seconds until the card is open, on a host that has just started."""
SILENT_S = 60.0
"""Seconds for one job, after which the process is given up on; honest ones take under one."""


class Measurer:
    """The process as its owner sees it. Answers come in any order."""

    def __init__(self, device: Device, seat: CardShare) -> None:
        """Start it, in the environment that the device needs.

        Args:
            device: What is measured on.
            seat: At which card, and how many share it.

        Raises:
            WorkerError: If it cannot be started.
        """
        os.environ["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
        context = get_context("spawn")
        self._link, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs, device, seat))
        self._process.start()
        theirs.close()
        self.waiting = 0
        """Jobs that it has not answered."""
        self.busy_with = ""
        """Id of the job that it said it began last."""
        said = self._link.recv() if self._link.poll(OPEN_S) else "it does not answer"
        if not isinstance(said, dict):
            self.close()
            raise WorkerError(f"nothing can be measured: {said}")
        self.versions: dict[str, str] = said

    @property
    def has_room(self) -> bool:
        """Return True if it can take another job."""
        return self.waiting <= AHEAD

    def send(self, job: MeasureJob) -> None:
        """Tell it of a job.

        Raises:
            OSError: If it is gone.
        """
        self.waiting += 1
        self._link.send(job)

    def poll(self, timeout_s: float) -> tuple[str, Report | ExecutorFailure, float] | None:
        """A job's id, its answer and the seconds from its begin to that, if there is one in time.

        Raises:
            EOFError: If it is gone.
        """
        while self.waiting and self._link.poll(timeout_s):
            job, answer, seconds = self._link.recv()
            if answer is not None:
                self.waiting -= 1
                return job, answer, seconds
            self.busy_with = job
        return None

    def close(self) -> None:
        """End it. Idempotent."""
        self._link.close()
        self._process.join(2.0)
        if self._process.is_alive():
            self._process.kill()
        self._process.join()


class MeasurerSlot:
    """A place at a card: a measurer that is replaced when it is gone or silent, and what it was told of.

    Args:
        device: What is measured on.
        seat: At which card, and how many share it.

    Attributes:
        device: The same.
        versions: Of what influences a figure.
        latest: Operator of the job that was sent last.
    """

    def __init__(self, device: Device, seat: CardShare = FIRST_CARD) -> None:
        self.device = device
        self._hire = partial(Measurer, device, seat)
        self._measurer = self._hire()
        self.versions = self._measurer.versions
        self.latest = ""
        self._sent: dict[str, tuple[MeasureJob, TracedVariant]] = {}
        self._answered_at = time.monotonic()

    def __enter__(self) -> "MeasurerSlot":
        return self

    def __exit__(self, *_: object) -> None:
        self._measurer.close()

    @property
    def waiting(self) -> int:
        """Jobs without an answer."""
        return len(self._sent)

    @property
    def has_room(self) -> bool:
        """Return True if it can take another job."""
        return self._measurer.has_room

    def send(self, job: MeasureJob, variant: TracedVariant) -> None:
        """Tell it of a job."""
        if not self._sent:
            self._answered_at = time.monotonic()
        self.latest = job.operator.name
        self._sent[job.id] = job, variant
        with suppress(OSError):  # Whoever collects finds it gone.
            self._measurer.send(job)

    def collect(
        self, timeout_s: float
    ) -> Iterator[tuple[MeasureJob, TracedVariant, Report | ExecutorFailure, float | None]]:
        """Jobs that were answered, what they asked about, the answers, and the seconds that each took.

        Seconds are the measurer's own, from when it begins a job until it has the answer, however late that is
        collected; None of a job that was lost with its measurer.
        """
        lost = "it is silent" if self._sent and time.monotonic() - self._answered_at > SILENT_S else None
        try:
            while (said := self._measurer.poll(timeout_s)) is not None:
                self._answered_at, lost = time.monotonic(), None
                name, answer, seconds = said
                yield (*self._sent.pop(name), answer, seconds)
        except (EOFError, OSError):
            lost = "it is gone"
        if lost:
            yield (*self._replace(lost), None)

    def _replace(self, reason: str) -> tuple[MeasureJob, TracedVariant, ExecutorFailure]:
        """Start another measurer, which does all jobs but the one that the last one was at."""
        self._measurer.close()
        lost = self._measurer.busy_with
        job, variant = self._sent.pop(lost if lost in self._sent else next(iter(self._sent)))
        self._measurer = self._hire()
        for waiting, _ in self._sent.values():
            self._measurer.send(waiting)
        self._answered_at = time.monotonic()
        return job, variant, ExecutorFailure(error=f"a measurer was replaced: {reason}", transient=True)


def _work(link: Connection, device: Device, seat: CardShare) -> None:
    """Serve jobs until the connection closes."""
    try:
        bench = open_device(device, "landscape", seat)
    except WorkerError as error:
        link.send(str(error))
        return
    link.send(bench.versions())
    known: list[MeasureJob] = []
    idle_since = time.monotonic()
    try:
        while True:
            while not known and not link.poll(REST_S):
                bench.rest()
            while not known or link.poll():
                known.append(link.recv())
                bench.foresee(known[-1].bundle)
                idle_since = time.monotonic()
            prepared = next((place for place, each in enumerate(known) if bench.is_prepared(each.bundle)), None)
            if prepared is None and time.monotonic() - idle_since < PATIENCE_S:
                link.poll(LOOK_S)
                continue
            job = known.pop(prepared or 0)
            link.send((job.id, None, 0.0))
            begun = time.perf_counter()
            try:
                measure = bench.measure_briefly if isinstance(bench, CudaDevice) else bench.measure
                answer: Report | ExecutorFailure = measure(job)
            except WorkerError as error:
                answer = ExecutorFailure(error=f"{type(error).__name__}: {error}", transient=True)
            link.send((job.id, answer, time.perf_counter() - begun))
            idle_since = time.monotonic()
    except (EOFError, OSError):
        bench.close()
