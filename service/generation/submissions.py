"""Candidates that agents submit over REST: they wait until the tick that runs their search stores them.

Only the tick changes a search, so budgets hold however many submissions come at once. A submission is in memory until
it is stored, and its caller waits that long: one that is lost was never accepted.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from archive.records import CandidateRecord, SearchRecord
from archive.store import Store
from service.emitters.agent import NAME as AGENT
from service.emitters.base import Proposal
from service.errors import Conflict, RateLimited, ServiceError, Unavailable
from service.generation.proposals import Proposer
from service.operators.sources import digest
from workers.protocol import Operator

MOST_WAITING = 64
"""Maximum number of submissions of one search that wait for a free slot; more callers are asked to come again."""
AGAIN_S = 2
"""Seconds after which they may: a judgement takes about as long."""
ACCEPT_S = 20.0
"""Seconds that a submission waits for a free slot; then its caller is asked to come again."""


@dataclass(frozen=True)
class AgentSubmission:
    """Kernel that an agent submits.

    Attributes:
        search: Id of the search.
        source: Text of the kernel.
        note: The agent's own line on what it changed and why.
        parents: Whole ids of candidates of the same search.
        exchange: Exchange of the agent, if the service started it; else None.
        most: Maximum number of candidates of that exchange; None for no limit.
    """

    search: str
    source: str
    note: str = ""
    parents: tuple[str, ...] = ()
    exchange: str | None = None
    most: int | None = None


@dataclass(frozen=True, eq=False)
class _Waiting:
    submission: AgentSubmission
    stored: asyncio.Future[CandidateRecord] = field(repr=False)

    def refuse(self, error: ServiceError) -> None:
        if not self.stored.done():
            self.stored.set_exception(error)


class AgentSubmissions:
    """Submissions that wait, by search."""

    def __init__(self, store: Store, proposer: Proposer) -> None:
        self._store = store
        self._proposer = proposer
        self._waiting: dict[str, deque[_Waiting]] = {}

    async def submit(self, submission: AgentSubmission) -> CandidateRecord:
        """Wait until a submission is a candidate, and return it; an equal source gives the candidate that there is.

        Raises:
            Conflict: If the agent has used its evaluations.
            RateLimited: If too many wait already.
            Unavailable: If no slot became free in time, or the search does not run here.
        """
        waiting = self._waiting.setdefault(submission.search, deque())
        if len(waiting) >= MOST_WAITING:
            raise RateLimited(f"{MOST_WAITING} kernels wait already; try again in {AGAIN_S} s", AGAIN_S)
        mine = _Waiting(submission, asyncio.get_running_loop().create_future())
        waiting.append(mine)
        try:
            return await asyncio.wait_for(mine.stored, ACCEPT_S)
        except TimeoutError as error:
            raise Unavailable(f"the search had no free slot for {ACCEPT_S:g} s; try again") from error
        finally:
            if mine in waiting:
                waiting.remove(mine)

    async def accept(
        self, search: SearchRecord, operator: Operator, free: int, allot: Callable[[], int]
    ) -> list[CandidateRecord]:
        """Store submissions as candidates while slots are free. Returns those that are new, to be traced.

        Args:
            search: A running search.
            operator: Its operator.
            free: Number of free slots; at most zero if its evaluations are used.
            allot: Returns the next free ordinal.
        """
        waiting, new = self._waiting.get(search.id, deque[_Waiting]()), list[CandidateRecord]()
        for mine in list(waiting):
            if mine.stored.done():
                continue
            try:
                found = await self._store.attempts.equal(search.id, digest(mine.submission.source))
                if found is None and len(new) < free:
                    found = await self._keep(search, operator, mine.submission, allot)
                    new.append(found)
            except ServiceError as error:
                mine.refuse(error)
            else:
                if found is not None and not mine.stored.done():
                    mine.stored.set_result(found)
        return new

    def retain(self, searches: Collection[str]) -> None:
        """Refuse the submissions of all other searches."""
        for search in self._waiting.keys() - set(searches):
            for mine in self._waiting.pop(search):
                mine.refuse(Unavailable("the search does not run here at the moment; try again"))

    async def _keep(
        self, search: SearchRecord, operator: Operator, new: AgentSubmission, allot: Callable[[], int]
    ) -> CandidateRecord:
        if new.exchange is not None and new.most is not None:
            used = len(await self._store.attempts.of_exchange(search.id, new.exchange))
            if used >= new.most:
                raise Conflict(f"this agent has used its {new.most} evaluations")
        proposal = Proposal(new.source, new.parents, new.note, exchange=new.exchange)
        kept = await self._proposer.keep(search, operator, allot(), AGENT, proposal)
        if kept is None:
            raise Unavailable("another proposal had the same source at the same moment; try again")
        return kept
