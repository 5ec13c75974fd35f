"""Reports as they come in: applied if this coordinator runs their search, handed to the one that does otherwise.

What is known of a search's jobs in flight is in the memory of the coordinator that runs it, so that one alone applies
the reports. A report is let go of only after the archive has committed what it says, and applying one twice changes
nothing: none is lost and none counts twice, whoever dies in between.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import structlog

from archive.errors import ArchiveError, Unavailable
from archive.errors import NotFound as Gone
from service.judging.finals import Finals
from service.judging.jobs import is_final
from service.judging.verdicts import Verdicts
from service.judging.vetting import Vetting
from service.metrics import METRICS
from service.searching.roster import Roster
from service.searching.tenure import Holdings
from workers.protocol import AnyReport, TraceReport
from workers.queue import Delivery, Dispatcher, Handed

COLLECT = 64
"""Most reports taken from one worker at once."""
BLOCK_MS = 100
"""Longest wait for a report, so that new searches and free places are seen soon."""
APPLIED_AT_ONCE = 32
"""Reports applied before they are acknowledged: fewer than a second's worth, so that none is delivered again."""

Each = TypeVar("Each", Delivery, Handed)

log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Mail:
    """What came in: collected from workers, and handed over by other coordinators."""

    collected: Sequence[Delivery]
    handed: Sequence[Handed]

    @property
    def reports(self) -> list[AnyReport]:
        """What it says."""
        return [delivery.report for delivery in self.collected] + [each.report for each in self.handed]


class Intake:
    """Takes reports in."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        verdicts: Verdicts,
        finals: Finals,
        vetting: Vetting,
        roster: Roster,
        holdings: Holdings,
    ) -> None:
        self._dispatcher = dispatcher
        self._vetting = vetting
        self._verdicts = verdicts
        self._finals = finals
        self._roster = roster
        self._holdings = holdings

    async def collect(self) -> Mail:
        """Take reports, waiting a little if there are none. Those of hosts come as they may count, or not at all.

        Raises:
            Unavailable: If the database does not answer.
            QueueUnavailable: If Redis does not answer.
        """
        handed = [] if self._holdings.alone else await self._dispatcher.handover.given(self._holdings.held)
        collected = await self._dispatcher.collect(count=COLLECT, block_ms=0 if handed else BLOCK_MS)
        vetted = await self._vetting.vet(collected)
        kept = {delivery.receipt for delivery in vetted}
        await self._dispatcher.acknowledge([delivery.receipt for delivery in collected if delivery.receipt not in kept])
        return Mail(vetted, handed)

    async def apply(self, mail: Mail) -> set[str]:
        """Apply what is about searches that run here or have ended. What is about open searches of others is handed on.

        Returns:
            The searches that were heard of.

        Raises:
            Unavailable: If the database does not answer; what is not applied comes again.
            QueueUnavailable: If Redis does not answer; likewise.
        """
        for handed in _chunks(mail.handed):
            await self._apply_all([each.report for each in handed])
            await self._dispatcher.handover.settle(handed)
        for chunk in _chunks(mail.collected):
            away = self._roster.marks.keys() - self._holdings.held
            others = [delivery for delivery in chunk if not delivery.known and delivery.report.search in away]
            ours = [delivery for delivery in chunk if delivery.known or delivery.report.search not in away]
            await self._apply_all([delivery.report for delivery in ours])
            await self._dispatcher.acknowledge([delivery.receipt for delivery in ours])
            if others:
                await self._dispatcher.handover.give([delivery.report for delivery in others])
                await self._dispatcher.acknowledge([delivery.receipt for delivery in others])
        return {report.search for report in mail.reports}

    async def _apply_all(self, reports: Sequence[AnyReport]) -> None:
        for report in reports:
            try:
                await self._apply(report)
                METRICS.reported(report)
            except Unavailable:
                raise
            except Gone:
                log.warning("report about nothing we know", job=report.job, search=report.search)
            except (ArchiveError, ValueError, LookupError) as error:
                # It would fail again each time that it came, and hold up all others.
                log.error("report cannot be applied", job=report.job, reason=str(error)[:500])

    async def _apply(self, report: AnyReport) -> None:
        search = await self._roster.get(report.search)
        operator = await self._roster.operator(search)
        if is_final(report.job):
            await self._finals.apply(search, operator, report)
        elif not isinstance(report, TraceReport):
            await self._verdicts.apply_report(search, operator, report)
        elif report.candidate is None:
            await self._verdicts.apply_reference(search, report)
        else:
            await self._verdicts.apply_trace(search, operator, report)


def _chunks(mail: Sequence[Each]) -> list[Sequence[Each]]:
    return [mail[start : start + APPLIED_AT_ONCE] for start in range(0, len(mail), APPLIED_AT_ONCE)]
