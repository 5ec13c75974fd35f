"""Reports that cannot be applied: their job is repeated, and counts as lost after several such reports.

Another worker's report may be fine, so the first failures are retried. A failure that repeats is reported to the
search, so that no job is dropped silently or repeated for ever.
"""

from collections import Counter
from collections.abc import Container

from workers.protocol import AnyReport
from workers.queue import report_instead

MOST_REFUSED = 3
"""Refused reports after which a job counts as lost: the same number as for failing workers (DESIGN 5)."""


class PoisonReports:
    """Counts of refused reports by job, in one coordinator's memory: another coordinator starts at zero."""

    def __init__(self) -> None:
        self._counts: dict[str, Counter[str]] = {}

    def count(self, report: AnyReport, reason: str) -> AnyReport | None:
        """Count one refused report.

        Args:
            report: The report that cannot be applied.
            reason: Reason why not.

        Returns:
            The report to apply instead, with the outcome `worker_lost`; None if the job may be repeated.
        """
        counts = self._counts.setdefault(report.search, Counter())
        counts[report.job] += 1
        if counts[report.job] < MOST_REFUSED:
            return None
        told = f"{MOST_REFUSED} reports on it could not be applied; the last one: {reason}"
        return report_instead(report.model_dump(), told)

    def settle(self, report: AnyReport) -> None:
        """Forget a job after a report on it was applied."""
        if report.search in self._counts:
            del self._counts[report.search][report.job]

    def retain(self, searches: Container[str]) -> None:
        """Forget the jobs of all other searches."""
        self._counts = {search: counts for search, counts in self._counts.items() if search in searches}
