"""Pace of a sitting of the KernelBench campaign: what searches have had of their card, and what else fits."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median

READY_S, SEARCH_S, COMPARE_S = 25.0, 15.0, 12.0
"""Seconds until a problem's first seed is judged, of the card for its search, and of its comparison, before any is
known."""
LATEST = 8
"""Number of latest problems whose median counts."""
STALE_EVALUATIONS = 16
"""Minimum number of evaluations without another leading kernel after which a search is stale."""


@dataclass
class CampaignPace:
    """Seconds that the problems of a sitting took so far, to decide if another one fits."""

    ready_s: list[float] = field(default_factory=list)
    card_s: list[float] = field(default_factory=list)
    compare_s: list[float] = field(default_factory=list)

    def needed_s(self, before: int) -> float:
        """Return the seconds until one more problem is done, if `before` others have the card first."""
        ready_s, card_s = _latest(self.ready_s, READY_S), _latest(self.card_s, SEARCH_S)
        taken_s = card_s + self.compared_s(1)
        return max(ready_s, before * taken_s) + taken_s

    def compared_s(self, problems: int) -> float:
        """Return the seconds of the comparisons of some problems."""
        return problems * _latest(self.compare_s, COMPARE_S)


def _latest(seconds: list[float], unknown_s: float) -> float:
    return median(seconds[-LATEST:] or [unknown_s])


class CardSeconds:
    """Seconds of a card that searches have had: those that run at the same time share the time evenly.

    So the seconds of all searches add up to the time in which any of them ran.

    Args:
        clock: Seconds that pass.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since = clock()
        self._running: set[str] = set()
        self._had: dict[str, float] = {}

    def begin(self, search: str) -> None:
        """Count for a search from now on."""
        self._count()
        self._running.add(search)

    def end(self, search: str) -> None:
        """Count for a search no longer. Idempotent."""
        self._count()
        self._running.discard(search)

    def had_s(self, search: str) -> float:
        """Return the seconds that a search has had."""
        self._count()
        return self._had.get(search, 0.0)

    @property
    def running(self) -> int:
        """Number of searches that run."""
        return len(self._running)

    def _count(self) -> None:
        now = self._clock()
        for search in self._running:
            self._had[search] = self._had.get(search, 0.0) + (now - self._since) / len(self._running)
        self._since = now


@dataclass
class SearchProgress:
    """The leading kernel of a search, and when it took the lead.

    Attributes:
        leader: Its candidate; None without a correct kernel.
        card_s: Seconds of the card that the search had had by then.
        evaluated: Number of its evaluations by then.
    """

    leader: str | None = None
    card_s: float = 0.0
    evaluated: int = 0

    def note(self, leader: str | None, card_s: float, evaluated: int) -> None:
        """Note the leading kernel of now."""
        if leader != self.leader:
            self.leader, self.card_s, self.evaluated = leader, card_s, evaluated

    def is_stale(self, card_s: float, evaluated: int, stale_s: float) -> bool:
        """Return True if the lead has not changed in the latest `stale_s` seconds and `STALE_EVALUATIONS`."""
        return card_s - self.card_s >= stale_s and evaluated - self.evaluated >= STALE_EVALUATIONS
