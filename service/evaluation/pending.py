"""Deduplicate pending jobs: all cases that need the same result share one job, across searches.

This only saves work; it is rebuilt from the archive after a restart.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from service.evaluation.jobs import JobSubject

Key = TypeVar("Key", bound=Hashable)
Subject = TypeVar("Subject", bound=JobSubject)


@dataclass
class _PendingJob(Generic[Subject]):
    """One job and the subjects that wait for it. `sender` is the search it was sent for; None if it may be lost."""

    sender: str | None = None
    waiting: list[Subject] = field(default_factory=list)


class Pending(Generic[Key, Subject]):
    """Pending jobs by key; equal keys mean equal results."""

    def __init__(self) -> None:
        self._jobs: dict[Key, _PendingJob[Subject]] = {}
        self._candidates: Counter[str] = Counter()

    def has(self, key: Key, subject: Subject) -> bool:
        """Return True if this subject waits for the job already."""
        return key in self._jobs and any(other.same(subject) for other in self._jobs[key].waiting)

    def join(self, key: Key, subject: Subject) -> bool:
        """Add a subject. Returns True if the caller has to send the job."""
        job = self._jobs.setdefault(key, _PendingJob())
        if not self.has(key, subject):
            job.waiting.append(subject)
            self._candidates[subject.candidate.id] += 1
        if job.sender is not None:
            return False
        job.sender = subject.search.id
        return True

    def claim(self, key: Key) -> list[Subject]:
        """Remove a job and return all subjects that waited for it."""
        job = self._jobs.pop(key, None)
        if job is None:
            return []
        self._leave(job.waiting)
        return job.waiting

    def awaits(self, candidate: str) -> bool:
        """Return True if a job for this candidate is pending."""
        return candidate in self._candidates

    def forget(self, search: str) -> set[str]:
        """Remove a search, and the senders of jobs that were sent for it.

        Returns:
            The other searches that wait for one of these jobs. The next subject to join has it sent again.
        """
        orphans: set[str] = set()
        for key, job in list(self._jobs.items()):
            self._leave([subject for subject in job.waiting if subject.search.id == search])
            job.waiting = [subject for subject in job.waiting if subject.search.id != search]
            if job.sender == search:
                job.sender = None
                orphans.update(subject.search.id for subject in job.waiting)
            if not job.waiting:
                del self._jobs[key]
        return orphans

    def _leave(self, leaving: Sequence[Subject]) -> None:
        for subject in leaving:
            self._candidates[subject.candidate.id] -= 1
            if not self._candidates[subject.candidate.id]:
                del self._candidates[subject.candidate.id]
