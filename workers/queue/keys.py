"""Names of the queue's keys; the package's page says what each holds.

The keys themselves keep their names: workers of an earlier release may be connected, and jobs queued, at an upgrade.
"""

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import groupby
from typing import Self

from workers.protocol import (
    Job,
    TraceJob,
    compiled_at,
)
from workers.targets import TARGETS

QUEUES = "reef:lanes"
WORKERS = "reef:workers"
JOB_GROUP = "workers"
"""Consumer group of every job stream."""
REPORT_GROUP = "service"
"""Consumer group of every report stream."""
RETURNED = "reef:returned"
"""Searches with forwarded reports that are not applied yet."""
RESERVED = "reserved-"
"""Prefix of the kind of a queue for trusted workers only."""
FINAL = "final"
"""Kind of the queues in which finalists are judged; `final-trace` is that of the queues in which they are traced."""
DECISIVE = frozenset({"confirm", FINAL, f"{FINAL}-trace"})
"""Kinds that decide about cells; they are always reserved."""

_HOST = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def worker_key(worker: str) -> str:
    """Return the key of a worker's status."""
    return f"reef:worker:{worker}"


def reports_key(worker: str) -> str:
    """Return the key of a worker's reports."""
    return f"reef:reports:{worker}"


def returned_key(search: str) -> str:
    """Return the key of a search's reports that were collected by a coordinator that does not run it."""
    return f"{RETURNED}:{search}"


def ask_key(worker: str) -> str:
    """Return the key of a remote worker's request to the broker."""
    return f"reef:ask:{worker}"


def inbox_key(worker: str) -> str:
    """Return the key of the broker's answers to a remote worker."""
    return f"reef:inbox:{worker}"


def held_key(worker: str) -> str:
    """Return the key of the id of the job that a remote worker holds."""
    return f"reef:held:{worker}"


def user_of(worker: str) -> str:
    """Return the name of a remote worker's own user of Redis."""
    return f"reef-{worker}"


def is_host(worker: str) -> bool:
    """Return True if a worker is remote: joining gave it a UUIDv7 as its id. Other workers name themselves."""
    return _HOST.fullmatch(worker) is not None


def worker_of(reports: str) -> str:
    """Return the worker whose reports are under a key."""
    return reports.removeprefix(reports_key(""))


@dataclass(frozen=True)
class JobQueue:
    """The queue of jobs of one kind for one place.

    The place is a target for trace jobs that compile, and a device for all others. Jobs that ask for a compiler have
    places of their own, such as `sm_90/triton-3.9`, if they compile or are for a `model` device.
    """

    place: str
    kind: str

    @classmethod
    def of(cls, job: Job, *, reserved: bool = False) -> Self:
        """Return the queue of a job.

        Jobs of confirms, finalists and references are always reserved: the first two decide about cells, and the
        reference about every verdict.

        Args:
            job: The job.
            reserved: True if only trusted workers may do it.
        """
        if not isinstance(job, TraceJob):
            model = job.device.kind == "model"
            place = compiled_at(job.device.name, job.compiler if model else None)
            return cls(place, f"{RESERVED if reserved and job.kind not in DECISIVE else ''}{job.kind}")
        place = compiled_at(job.target, job.compiler) if job.device is None else job.device.name
        if job.references:
            return cls(place, f"{FINAL}-{job.kind}")
        return cls(place, f"{RESERVED if reserved or job.source is None else ''}{job.kind}")

    @classmethod
    def named(cls, name: str) -> Self:
        """Parse a queue's name; a place may hold colons, a kind does not."""
        place, _, kind = name.rpartition(":")
        return cls(place, kind)

    @property
    def reserved(self) -> bool:
        """True if only trusted workers may take its jobs."""
        return self.kind in DECISIVE or self.kind.startswith(RESERVED)

    @property
    def name(self) -> str:
        """The name within keys, such as `model:sm_90:measure`."""
        return f"{self.place}:{self.kind}"

    def jobs(self, search: str) -> str:
        """Return the key of the stream of a search's jobs."""
        return f"reef:jobs:{self.name}:{search}"

    def ids(self, search: str) -> str:
        """Return the key of the hash of a search's queued and leased jobs."""
        return f"reef:ids:{self.name}:{search}"

    def errors(self, search: str) -> str:
        """Return the key of the hash of the last errors of a search's jobs."""
        return f"reef:mishaps:{self.name}:{search}"

    @property
    def fair_shares(self) -> str:
        """Key of the queue's searches with the number of jobs served to each, divided by its priority."""
        return f"reef:served:{self.name}"

    @property
    def priorities(self) -> str:
        """Key of the hash of the queue's searches with the priority and the owner of each."""
        return f"reef:shares:{self.name}"

    @property
    def wake(self) -> str:
        """Key of the list that idle workers wait on."""
        return f"reef:wake:{self.name}"

    @property
    def dead(self) -> str:
        """Key of the stream of unreadable jobs."""
        return f"reef:dead:{self.name}"


def queues_of(target: str | None, device: str | None, compiler: str | None = None) -> tuple[JobQueue, ...]:
    """Return the queues of a trusted worker in order of preference.

    Jobs that finish a candidate, or that others wait for, come first. Finalists come last, so that no ordinary
    candidate waits for them.

    Args:
        target: Compile target that it traces for; None if it does not trace.
        device: Name of the device that it measures on; None if it measures nothing.
        compiler: Release of its Triton; None if unknown, and it then gets no job that asks for one.
    """
    kinds = [(device, kind) for kind in ("confirm", f"{RESERVED}measure", "measure")]
    kinds += [(target, kind) for kind in (f"{RESERVED}trace", "trace")]
    kinds += [(device, FINAL), (target, f"{FINAL}-trace")]
    return tuple(JobQueue(place, kind) for name, kind in kinds if name for place in _places(name, compiler))


def places_of(target: str | None, device: str | None, compiler: str | None = None) -> tuple[str, ...]:
    """Return the places that a worker works at; arguments as of `queues_of`."""
    return tuple(dict.fromkeys(place for name in (target, device) if name for place in _places(name, compiler)))


def in_turn(queues: Iterable[JobQueue]) -> list[JobQueue]:
    """Return queues in order of preference, those of one kind for several places in random order.

    Neither the jobs that ask for a worker's compiler nor the others come first for ever.
    """
    ordered = list[JobQueue]()
    for _, group in groupby(queues, key=lambda queue: queue.kind):
        same = list(group)
        ordered += random.sample(same, len(same))
    return ordered


def _places(name: str, compiler: str | None) -> list[str]:
    """Return a target or device, and its place for jobs that ask for a compiler; a card or a recording has none."""
    compiles = name in TARGETS or name.startswith("model:")
    return list(dict.fromkeys([name, compiled_at(name, compiler if compiles else None)]))
