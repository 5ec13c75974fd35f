"""Preparation of a search: reference, mutation testing, seeds and draft, side by side, before anything is proposed.

Proposals wait for the verdict on the reference seed alone. The other seeds are judged beside the first proposals.
"""

from collections.abc import Collection

from archive.records import SearchCounts, SearchRecord
from archive.store import Store
from service.errors import InvalidInput
from service.evaluation.admissions import Admissions, is_admitted
from service.evaluation.jobs import JobSubject
from service.evaluation.verdicts import Verdicts
from service.generation.drafts import DraftSeeds
from service.generation.proposals import Proposer
from workers.protocol import Operator, TraceReport
from workers.queue import Dispatcher


class Preparation:
    """Requests what searches need before they run, and applies the reports."""

    def __init__(self, store: Store, dispatcher: Dispatcher, proposer: Proposer, verdicts: Verdicts) -> None:
        self._store = store
        self._proposer = proposer
        self._verdicts = verdicts
        self._drafts = DraftSeeds(store, dispatcher, proposer, verdicts)
        self._admissions = Admissions(store, dispatcher, verdicts)

    async def advance(self, search: SearchRecord, operator: Operator) -> bool:
        """Store the seeds, then request the draft and mutation testing. The reference is exported meanwhile.

        Returns:
            True if the search may run, as `is_complete` says.
        """
        counts = await self._store.candidates.count(search.id)
        if counts.proposals < len(operator.seeds):
            await self._add_seeds(search, operator, range(counts.proposals, len(operator.seeds)))
            return False
        admitted = await self._admissions.obtain(search, operator)
        if self._drafts.is_due(search, operator, counts):
            await self._drafts.order(search, operator)
        return admitted and await self._has_first_verdict(search, operator, counts)

    async def is_complete(self, search: SearchRecord, operator: Operator) -> bool:
        """Return True if a search has a reference, an admitted operator, its draft and a correct reference seed."""
        counts = await self._store.candidates.count(search.id)
        return await self._has_first_verdict(search, operator, counts) and await is_admitted(self._store, search)

    async def sweep(self, search: SearchRecord, operator: Operator, queued: Collection[str]) -> None:
        """Request a missing reference, and allow new requests for all else whose jobs are not in the queue."""
        self._drafts.sweep(search.id, queued)
        await self._admissions.sweep(search, operator, queued)

    async def apply(self, search: SearchRecord, operator: Operator, report: TraceReport) -> None:
        """Apply a report that is about no candidate."""
        if self._drafts.is_about(report):
            await self._drafts.apply(search, operator, report)
        else:
            await self._admissions.apply(search, operator, report)

    async def _has_first_verdict(self, search: SearchRecord, operator: Operator, counts: SearchCounts) -> bool:
        # The draft has the ordinal behind the seeds, so it is stored before the first proposal.
        if not search.graphs or self._drafts.is_due(search, operator, counts):
            return False
        return await self._verdicts.reference_seed.is_final(search)

    async def _add_seeds(self, search: SearchRecord, operator: Operator, ordinals: range) -> None:
        try:
            added_seeds = await self._proposer.add_seeds(search, operator, ordinals)
        except InvalidInput as error:
            await self._verdicts.failures.fail(search, error.detail)
            return
        for candidate in added_seeds:
            await self._verdicts.trace(JobSubject(search, operator, candidate))
