"""Who waits for one job, so that what it finds out is found out once, whichever searches want to know it.

Waiting only saves work, and is rebuilt from the archive after a restart.
"""

from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from service.evaluation.jobs import JobSubject

Key = TypeVar("Key", bound=Hashable)
Who = TypeVar("Who", bound=JobSubject)


@dataclass
class _PendingJob(Generic[Who]):
    """Those who wait for one job. It was sent for the search `sender`; None once that is not sure any more."""

    sender: str | None = None
    waiting: list[Who] = field(default_factory=list)


class Pending(Generic[Key, Who]):
    """By what a job finds out, who waits for it."""

    def __init__(self) -> None:
        self._lines: dict[Key, _PendingJob[Who]] = {}
        self._candidates: Counter[str] = Counter()

    def has(self, key: Key, who: Who) -> bool:
        """Whether somebody waits already."""
        return key in self._lines and any(other.same(who) for other in self._lines[key].waiting)

    def join(self, key: Key, who: Who) -> bool:
        """Wait; whether the job has to be sent, unless it is known to be on its way."""
        line = self._lines.setdefault(key, _PendingJob())
        if not self.has(key, who):
            line.waiting.append(who)
            self._candidates[who.candidate.id] += 1
        if line.sender is not None:
            return False
        line.sender = who.search.id
        return True

    def claim(self, key: Key) -> list[Who]:
        """Everybody who waits; they wait no longer."""
        line = self._lines.pop(key, None)
        if line is None:
            return []
        self._leave(line.waiting)
        return line.waiting

    def awaits(self, candidate: str) -> bool:
        """Whether a candidate waits for anything."""
        return candidate in self._candidates

    def forget(self, search: str) -> set[str]:
        """Drop a search, and what was known of jobs that were sent for it.

        Returns:
            The other searches that wait for one of these jobs. Whoever joins next has it sent again.
        """
        orphans: set[str] = set()
        for key, line in list(self._lines.items()):
            self._leave([who for who in line.waiting if who.search.id == search])
            line.waiting = [who for who in line.waiting if who.search.id != search]
            if line.sender == search:
                line.sender = None
                orphans.update(who.search.id for who in line.waiting)
            if not line.waiting:
                del self._lines[key]
        return orphans

    def _leave(self, leaving: Sequence[Who]) -> None:
        for who in leaving:
            self._candidates[who.candidate.id] -= 1
            if not self._candidates[who.candidate.id]:
                del self._candidates[who.candidate.id]
