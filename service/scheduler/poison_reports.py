"""Reports that cannot be applied: the job is done again, and counts as lost where that is of no use either.

So none is dropped without a word, and none comes for ever: what is wrong with one worker's report need not be with
another's, but what goes wrong each time is said to whoever waits for it.
"""

from collections import Counter
from collections.abc import Container

from workers.protocol import AnyReport
from workers.queue import report_instead

MOST_REFUSED = 3
"""Reports on one job that may be refused before it counts as lost: as many as workers may fail on it (DESIGN 5)."""


class PoisonReports:
    """How often the reports on each job were refused, as far as one coordinator knows: another one counts anew."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def count(self, report: AnyReport, reason: str) -> AnyReport | None:
        """Count one more.

        Args:
            report: What cannot be applied.
            reason: Why not.

        Returns:
            The report to apply in its place, which says that the job is lost; None if the job may be done again.
        """
        counts = self._counts.setdefault(report.search, Counter())
        counts[report.job] += 1
        if counts[report.job] < MOST_REFUSED:
            return None
        return lost(report, f"{MOST_REFUSED} reports on it could not be applied; the last one: {reason}")

    def settle(self, report: AnyReport) -> None:
        """Forget a job: a report on it was applied."""
        if report.search in self._counts:
            del self._counts[report.search][report.job]

    def retain(self, searches: Container[str]) -> None:
        """Forget the jobs of all other searches."""
        self._counts = {search: counts for search, counts in self._counts.items() if search in searches}


def lost(report: AnyReport, reason: str) -> AnyReport:
    """A report with the outcome `worker_lost`, on the job that another one is about; of that, nothing else is in it."""
    return report_instead(report.model_dump(), reason)
