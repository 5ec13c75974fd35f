"""What a model may consult during a conversation: the archive's kernels, and the judge."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from archive.records import CandidateRecord, CandidateState, SearchRecord
from archive.store import Store
from service.emitters.base import Parent, Proposal
from service.generation.contexts import ContextBuilder
from service.generation.proposals import Proposer
from service.operators.sources import digest
from workers.protocol import Operator

POLL_S = 0.2
"""Seconds between two looks for a verdict; judgements take seconds."""
ELITES = 12
"""Elites that are listed: what a person reads at a glance."""


@dataclass(frozen=True)
class CandidateSubmission:
    """How candidates are handed in during a conversation.

    Attributes:
        emitter: In whose name.
        allot: Gives the next ordinal.
        hand_in: Takes a stored candidate, to be traced by the next tick.
    """

    emitter: str
    allot: Callable[[], int]
    hand_in: Callable[[CandidateRecord], None]


class ArchiveTools:
    """A desk on the archive of one search. A quick judgement is that of an ordinary candidate, waited for."""

    def __init__(
        self,
        store: Store,
        proposer: Proposer,
        search: SearchRecord,
        operator: Operator,
        device: str,
        submission: CandidateSubmission,
    ) -> None:
        self._store = store
        self._proposer = proposer
        self._contexts = ContextBuilder(store)
        self._search = search
        self._operator = operator
        self._device = device
        self._submission = submission

    async def elites(self) -> list[Parent]:
        """The best kernels on the device, the best first."""
        search = self._search
        found = await self._store.elites.list(search.id, self._device, search.axes_version)
        best = sorted(found, key=lambda elite: (-elite.objective, elite.cell))[:ELITES]
        return [await self._contexts.holder(search, elite) for elite in best]

    async def find(self, ordinal: int) -> Parent | None:
        """The candidate of an ordinal, None if the search has none."""
        found = await self._store.attempts.proposed(self._search.id, ordinal)
        return None if found is None else await self._contexts.candidate(self._search, self._device, found)

    async def judge(self, source: str, parents: Sequence[str], note: str) -> Parent | None:
        """Have a source judged; an equal one's verdict is taken. None if the search may judge no more."""
        search, key = self._search, digest(source)
        candidate = await self._store.attempts.equal(search.id, key)
        if candidate is None:
            counts = await self._store.candidates.count(search.id)
            if counts.candidates >= search.budget:
                return None
            proposal = Proposal(source, tuple(parents), note)
            emitter, ordinal = self._submission.emitter, self._submission.allot()
            candidate = await self._proposer.keep(search, self._operator, ordinal, emitter, proposal)
            if candidate is None:
                return await self.judge(source, parents, note)
            self._submission.hand_in(candidate)
        while candidate.state is not CandidateState.JUDGED:
            await asyncio.sleep(POLL_S)
            candidate = await self._store.candidates.get(candidate.id)
        return await self._contexts.candidate(search, self._device, candidate)
