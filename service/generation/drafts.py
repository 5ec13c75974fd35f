"""Draft seeds: kernels that a worker makes from an operator's reference, added as a candidate before a search runs."""

from collections.abc import Collection

import structlog

from archive.records import SearchCounts, SearchRecord
from archive.store import Store
from service.emitters import EMITTERS
from service.emitters.base import Proposal, ProposalContext
from service.evaluation.jobs import JobSubject, draft_id, draft_job, target_of
from service.evaluation.verdicts import Verdicts
from service.generation.proposals import Proposer, chance
from workers.protocol import Operator, TraceReport
from workers.queue import Dispatcher

log = structlog.get_logger(__name__)


def draft_emitter(search: SearchRecord) -> str | None:
    """Return the emitter of a search that proposes a draft, if it has one."""
    return next((name for name in search.emitters if EMITTERS[name].proposes_draft), None)


class DraftSeeds:
    """Requests drafts and stores them as candidates. A draft has the ordinal after the operator's own seeds."""

    def __init__(self, store: Store, dispatcher: Dispatcher, proposer: Proposer, verdicts: Verdicts) -> None:
        self._store = store
        self._dispatcher = dispatcher
        self._proposer = proposer
        self._verdicts = verdicts
        self._ordered: set[str] = set()

    def is_due(self, search: SearchRecord, operator: Operator, counts: SearchCounts) -> bool:
        """Return True if a search lacks its draft."""
        return draft_emitter(search) is not None and counts.proposals == len(operator.seeds)

    async def order(self, search: SearchRecord, operator: Operator) -> None:
        """Request a draft, unless one is pending."""
        if search.id not in self._ordered:
            await self._dispatcher.submit(draft_job(search, operator))
            self._ordered.add(search.id)

    def sweep(self, search: str, queued: Collection[str]) -> None:
        """Allow a new request of a search's draft if its job is not in the queue."""
        if draft_id(search) not in queued:
            self._ordered.discard(search)

    async def apply(self, search: SearchRecord, operator: Operator, report: TraceReport) -> None:
        """Store a draft, or count that there is none. A second report on it changes nothing."""
        name, ordinal = draft_emitter(search), len(operator.seeds)
        counts = await self._store.candidates.count(search.id)
        if name is None or not self.is_due(search, operator, counts):
            return
        context = ProposalContext(
            operator=operator.model_dump(mode="json"),
            target=target_of(search),
            parents=(),
            trials=(),
            rng=chance(search, ordinal),
            draft=report.draft,
        )
        proposal = await EMITTERS[name].propose(context)
        if not isinstance(proposal, Proposal):
            log.info("no draft", search=search.id, operator=operator.name, reason=report.reason)
            await self._store.attempts.pass_over(search.id, ordinal, name)
            return
        candidate = await self._proposer.keep(search, operator, ordinal, name, proposal)
        if candidate is not None:
            await self._verdicts.trace(JobSubject(search, operator, candidate))

    @staticmethod
    def is_about(report: TraceReport) -> bool:
        """Return True if a report is about a draft."""
        return report.candidate is None and report.job == draft_id(report.search)
