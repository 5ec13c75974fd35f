"""Ingestion of reports: applied if this coordinator holds their search, else forwarded to the one that does.

Jobs in flight are in the memory of the coordinator that holds the search, so only that one applies its reports. A
report is acknowledged only after the archive has committed its effects, and applying one twice changes nothing. So no
report is lost or counted twice, even if a coordinator dies in between. A report that cannot be applied is acknowledged
too, but its job is repeated, and counts as lost after several such reports.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import structlog

from archive.errors import ArchiveError, DatabaseUnavailable
from archive.errors import RecordNotFound as Gone
from service.evaluation.finalists import Finalists
from service.evaluation.jobs import is_final
from service.evaluation.source_checks import SourceChecks
from service.evaluation.spot_checks import SpotChecks
from service.evaluation.verdicts import Verdicts
from service.generation.preparation import Preparation
from service.metrics import METRICS
from service.scheduler.leases import SearchLeases
from service.scheduler.poison_reports import PoisonReports
from service.scheduler.search_cache import SearchCache
from workers.protocol import AnyReport, TraceReport
from workers.queue import Delivery, Dispatcher, ForwardedReport, QueueUnavailable

COLLECT = 256
"""Reports taken at once if there are fewer workers than that."""
BLOCK_MS = 100
"""Longest wait for a report, milliseconds, so that new searches and free slots are noticed soon."""
APPLIED_AT_ONCE = 128
"""Reports that share a transaction: enough to make its cost negligible, and few enough to be applied in a fraction of a
second, so that none is delivered again before it is acknowledged."""
REFUSAL_CHARS = 500
"""Maximum length of a refusal's reason."""

Each = TypeVar("Each", Delivery, ForwardedReport)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Inbox:
    """New reports: collected from workers, and forwarded by other coordinators."""

    collected: Sequence[Delivery]
    handed: Sequence[ForwardedReport]

    @property
    def reports(self) -> list[AnyReport]:
        """All reports, without their receipts."""
        return [delivery.report for delivery in self.collected] + [each.report for each in self.handed]


@dataclass
class _BatchOutcome:
    """Result of one transaction: the reports that were applied, and those that were refused with the reason.

    `broken` is the reason why the whole transaction failed, perhaps because of one report; empty if it did not.
    """

    applied: list[AnyReport] = field(default_factory=list)
    refused: list[tuple[AnyReport, str]] = field(default_factory=list)
    broken: str = ""


class Ingestion:
    """Collects reports and applies them.

    Attributes:
        source_checks: Quick checks of sources that are no candidates; their reports end there.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        verdicts: Verdicts,
        finals: Finalists,
        preparation: Preparation,
        spot_checks: SpotChecks,
        cache: SearchCache,
        search_leases: SearchLeases,
    ) -> None:
        self.source_checks = SourceChecks(dispatcher)
        self._dispatcher = dispatcher
        self._spot_checks = spot_checks
        self._verdicts = verdicts
        self._finals = finals
        self._preparation = preparation
        self._cache = cache
        self._search_leases = search_leases
        self._poison_reports = PoisonReports()

    async def collect(self) -> Inbox:
        """Take reports, waiting a little if there are none. Reports of remote workers pass the spot checks first.

        Raises:
            DatabaseUnavailable: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        handed = await self._dispatcher.forwarding.given(self._search_leases.held)
        collected = await self._dispatcher.collect(count=COLLECT, block_ms=0 if handed else BLOCK_MS)
        checked = await self._spot_checks.check(collected)
        kept = {delivery.receipt for delivery in checked}
        await self._dispatcher.acknowledge([delivery.receipt for delivery in collected if delivery.receipt not in kept])
        return Inbox(checked, handed)

    async def apply(self, inbox: Inbox) -> tuple[set[str], set[str]]:
        """Apply reports on searches that are held here or have ended; forward those on other coordinators' searches.

        Returns:
            The searches with applied reports, and the searches that need a sweep because jobs may be lost.

        Raises:
            DatabaseUnavailable: If the database does not answer; unapplied reports are delivered again.
            QueueUnavailable: If Redis does not answer; likewise.
        """
        doubtful: set[str] = set()
        self._poison_reports.retain(self._cache.fingerprints)
        for handed in _chunks(inbox.handed):
            doubtful |= await self._apply_all([each.report for each in handed])
            await self._dispatcher.forwarding.settle(handed)
        for chunk in _chunks(inbox.collected):
            away = self._cache.fingerprints.keys() - self._search_leases.held
            others = [delivery for delivery in chunk if not delivery.known and delivery.report.search in away]
            ours = [delivery for delivery in chunk if delivery.known or delivery.report.search not in away]
            doubtful |= await self._apply_all([delivery.report for delivery in ours if not delivery.unread])
            doubtful |= await self._refuse_all([(each.report, each.unread) for each in ours if each.unread])
            await self._dispatcher.acknowledge([delivery.receipt for delivery in ours])
            if others:
                await self._dispatcher.forwarding.give([delivery.report for delivery in others])
                await self._dispatcher.acknowledge([delivery.receipt for delivery in others])
        return {report.search for report in inbox.reports} - doubtful, doubtful

    async def _apply_all(self, reports: Sequence[AnyReport]) -> set[str]:
        """Apply reports and commit their effects. Returns the searches that need a sweep."""
        tried, doubtful = await self._try(reports), set[str]()
        refused = tried.refused
        if tried.broken:
            # The archive refuses something in one of them; applied one by one, only that one fails.
            doubtful = {report.search for report in reports}
            for search in doubtful:
                self._verdicts.forget(search)
            refused = [each for report in reports for each in await self._try_alone(report)]
        return doubtful | await self._refuse_all(refused)

    async def _refuse_all(self, refused: Sequence[tuple[AnyReport, str]]) -> set[str]:
        """Handle reports that cannot be applied, each with its reason. Returns their searches."""
        for report, reason in refused:
            await self._refuse(report, reason[:REFUSAL_CHARS])
        return {report.search for report, _ in refused}

    async def _refuse(self, report: AnyReport, reason: str) -> None:
        """Leave a refused report's job to the next sweep, which sends it again; after several, count it as lost.

        If even the report of the loss cannot be applied, the search fails.
        """
        log.error("report cannot be applied", job=report.job, search=report.search, reason=reason)
        if report.search not in self._cache.fingerprints:
            return  # The search has ended.
        instead = self._poison_reports.count(report, reason)
        if instead is not None and await self._try_alone(instead):
            told = f"it cannot go on without the job {report.job}: {instead.reason}"
            await self._verdicts.failures.fail(await self._cache.get(report.search), told)

    async def _try_alone(self, report: AnyReport) -> list[tuple[AnyReport, str]]:
        """Apply one report in a transaction of its own. Returns it with the reason if it was refused."""
        tried = await self._try([report])
        return [(report, tried.broken)] if tried.broken else tried.refused

    async def _try(self, reports: Sequence[AnyReport]) -> _BatchOutcome:
        """Apply reports within one transaction."""
        tried = _BatchOutcome()
        reports = [report for report in reports if not self.source_checks.apply(report)]
        try:
            await self._verdicts.unit_of_work.expect(reports)
            for report in reports:
                await self._take(report, tried)
            await self._verdicts.unit_of_work.commit()
        except DatabaseUnavailable:
            raise
        except (ArchiveError, ValueError) as error:
            jobs = [report.job for report in reports]
            log.error("reports cannot be applied", jobs=jobs[:4], of=len(jobs), reason=_described(error))
            return _BatchOutcome(broken=_described(error))
        for report in tried.applied:
            self._poison_reports.settle(report)
            METRICS.reported(report)
            about = {"job": report.job, "search": report.search, "candidate": report.candidate}
            log.debug("report applied", worker=report.worker, outcome=report.outcome.value, **about)
        return tried

    async def _take(self, report: AnyReport, tried: _BatchOutcome) -> None:
        # The event loop serves pages as well: let them run between two reports.
        await asyncio.sleep(0)
        try:
            await self._apply(report)
        except (DatabaseUnavailable, QueueUnavailable):
            raise
        except Gone:
            log.warning("report for unknown job", job=report.job, search=report.search)
        except Exception as error:
            # Raised here, it would fail at each delivery and block all other reports.
            log.exception("report refused", job=report.job, search=report.search)
            tried.refused.append((report, _described(error)))
        else:
            tried.applied.append(report)

    async def _apply(self, report: AnyReport) -> None:
        search = await self._cache.get(report.search)
        operator = await self._cache.operator(search)
        if is_final(report.job):
            await self._finals.apply(search, operator, report)
        elif not isinstance(report, TraceReport):
            await self._verdicts.apply_report(search, operator, report)
        elif report.candidate is None:
            await self._preparation.apply(search, operator, report)
        else:
            await self._verdicts.apply_trace(search, operator, report)


def _described(error: Exception) -> str:
    """Describe an error for a person; never empty."""
    said = str(error) if isinstance(error, ArchiveError) else f"{type(error).__name__}: {error}"
    return said[:REFUSAL_CHARS] or type(error).__name__


def _chunks(inbox: Sequence[Each]) -> list[Sequence[Each]]:
    return [inbox[start : start + APPLIED_AT_ONCE] for start in range(0, len(inbox), APPLIED_AT_ONCE)]
