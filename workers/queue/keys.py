"""Names of the queue's keys; the package's page says what each holds."""

from dataclasses import dataclass
from typing import Self

from workers.protocol import ConfirmJob, MeasureJob, TraceJob

LANES = "reef:lanes"
WORKERS = "reef:workers"
JOB_GROUP = "workers"
"""Consumer group of every job stream."""
REPORT_GROUP = "service"
"""Consumer group of every report stream."""


def worker_key(worker: str) -> str:
    """Where a worker's status is."""
    return f"reef:worker:{worker}"


def reports_key(worker: str) -> str:
    """Where a worker's reports are."""
    return f"reef:reports:{worker}"


def worker_of(reports: str) -> str:
    """The worker whose reports are under a key."""
    return reports.removeprefix(reports_key(""))


@dataclass(frozen=True)
class Lane:
    """Where jobs of one kind for one place wait; the place is a target for trace jobs and a device for the others."""

    place: str
    kind: str

    @classmethod
    def of(cls, job: TraceJob | MeasureJob | ConfirmJob) -> Self:
        """The lane that a job goes to."""
        return cls(job.target if isinstance(job, TraceJob) else job.device.name, job.kind)

    @classmethod
    def named(cls, name: str) -> Self:
        """Read a lane's name back; a place may hold colons, a kind does not."""
        place, _, kind = name.rpartition(":")
        return cls(place, kind)

    @property
    def name(self) -> str:
        """The lane as keys write it, such as `model:sm_90:measure`."""
        return f"{self.place}:{self.kind}"

    def jobs(self, search: str) -> str:
        """Key of the stream of a search's jobs."""
        return f"reef:jobs:{self.name}:{search}"

    def ids(self, search: str) -> str:
        """Key of the hash of a search's jobs, queued or leased."""
        return f"reef:ids:{self.name}:{search}"

    def mishaps(self, search: str) -> str:
        """Key of the hash of what went wrong with a search's jobs."""
        return f"reef:mishaps:{self.name}:{search}"

    @property
    def served(self) -> str:
        """Key of the lane's searches with how often each was served."""
        return f"reef:served:{self.name}"

    @property
    def wake(self) -> str:
        """Key of the list that sleeping workers wait on."""
        return f"reef:wake:{self.name}"

    @property
    def dead(self) -> str:
        """Key of the stream of jobs that nobody can read."""
        return f"reef:dead:{self.name}"
