"""Tools for a language model during a conversation: the archive's kernels, and the judge."""

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
"""Maximum number of elites in a list: as many as a person can survey quickly."""


@dataclass(frozen=True)
class CandidateSubmission:
    """Callbacks for candidates that are submitted during a conversation.

    Attributes:
        emitter: Name of the emitter that proposes them.
        allot: Returns the next ordinal.
        hand_in: Takes a stored candidate; the next tick has it traced.
    """

    emitter: str
    allot: Callable[[], int]
    hand_in: Callable[[CandidateRecord], None]


class ArchiveTools:
    """Tools on the archive of one search. `judge` stores an ordinary candidate and waits for its verdict."""

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
        """List the best kernels on the device, the best first."""
        search = self._search
        found = await self._store.elites.list(search.id, self._device, search.axes_version)
        best = sorted(found, key=lambda elite: (-elite.objective, elite.cell))[:ELITES]
        return [await self._contexts.holder(search, elite) for elite in best]

    async def find(self, ordinal: int) -> Parent | None:
        """Return the candidate of an ordinal; None if the search has none."""
        found = await self._store.attempts.proposed(self._search.id, ordinal)
        return None if found is None else await self._contexts.candidate(self._search, self._device, found)

    async def submitted(self, exchange: str) -> list[str]:
        """Return the ids of the candidates that an agent submitted during an exchange, oldest first."""
        return await self._store.attempts.of_exchange(self._search.id, exchange)

    async def judge(self, source: str, parents: Sequence[str], note: str) -> Parent | None:
        """Evaluate a source, reusing the verdict of an identical one. Returns None if the budget is used up."""
        search, key = self._search, digest(source)
        candidate = await self._store.attempts.equal(search.id, key)
        if candidate is None:
            counts = await self._store.candidates.count(search.id)
            if counts.candidates >= search.evaluations:
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
