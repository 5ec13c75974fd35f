"""Prompts that wait for whoever answers them by hand: claimed under a lease, answered once.

What is set aside for such a prompt goes by the prompt's own id, and is settled or given back with it.
"""

import asyncio

from archive.records import Exchange, ExchangeState, LlmReply, SearchState
from archive.store import Store
from service.errors import Conflict
from service.llm import Completion, LlmRefused, TransientFailure

FIRST_LOOK_S = 0.05
LAST_LOOK_S = 5.0
"""Seconds between two looks for an answer that came in through another process: soon at first, seldom later."""
ENDED = (SearchState.DONE, SearchState.STOPPED, SearchState.FAILED)
QUEUED = (ExchangeState.WAITING, ExchangeState.CLAIMED)
WITHDRAWN = "withdrawn: the search has ended"


class ManualPrompts:
    """Prompts that wait, in the archive; and who waits for their answers, in this process."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._arrivals: dict[str, asyncio.Event] = {}

    async def wait_for(self, id: str) -> Completion:
        """The answer to an exchange, whenever it comes.

        Raises:
            Refused: If whoever claimed it would not answer.
            TransientFailure: If the prompt was withdrawn.
        """
        arrived = self._arrivals.setdefault(id, asyncio.Event())
        look_s = FIRST_LOOK_S
        try:
            while True:
                arrived.clear()
                exchange = await self._store.exchanges.get(id)
                if exchange.state not in QUEUED:
                    return _completion(exchange)
                try:
                    async with asyncio.timeout(look_s):
                        await arrived.wait()
                except TimeoutError:
                    look_s = min(2 * look_s, LAST_LOOK_S)
        finally:
            self._arrivals.pop(id, None)

    async def claim(self, id: str, holder: str, lease_s: float) -> Exchange:
        """Promise to answer a prompt within so many seconds.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            Conflict: If another holds it, it waits for nobody, or its search has ended.
        """
        await self._require_open(id)
        return await self._store.exchanges.claim(id, holder, lease_s)

    async def renew(self, id: str, holder: str, lease_s: float) -> Exchange:
        """Hold a claimed prompt for so many seconds from now.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            Conflict: If the holder has it no longer, or its search has ended.
        """
        await self._require_open(id)
        return await self._store.exchanges.renew(id, holder, lease_s)

    async def release(self, id: str, holder: str) -> Exchange:
        """Leave a claimed prompt to others.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            archive.errors.RecordConflict: If the holder does not have it.
        """
        return await self._store.exchanges.release(id, holder)

    async def answer(self, id: str, holder: str, reply: LlmReply) -> Exchange:
        """Answer a prompt that waits, or that the holder claimed; what was reserved for it is settled.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            Conflict: If another holds it, it has another answer, or its search has ended.
        """
        await self._require_open(id)
        answered = await self._store.exchanges.answer(id, reply, charge=id, claimed_by=holder)
        self._ring(id)
        return answered

    async def withdraw(self, search: str) -> int:
        """Take back every prompt of a search that waits; returns how many there were."""
        withdrawn = 0
        for state in QUEUED:
            while waiting := await self._store.exchanges.list(search=search, state=state, limit=200):
                for exchange in waiting:
                    await self._take_back(exchange.id)
                withdrawn += len(waiting)
        return withdrawn

    async def _take_back(self, id: str) -> None:
        await self._store.exchanges.fail(id, WITHDRAWN)
        await self._store.spending.release(id)
        self._ring(id)

    async def _require_open(self, id: str) -> None:
        """See that the search of an exchange may still use an answer."""
        exchange = await self._store.exchanges.get(id)
        search = await self._store.searches.get(exchange.search)
        if exchange.state in QUEUED and search.state in ENDED:
            await self.withdraw(search.id)
            raise Conflict(f"the search of prompt {id} is {search.state.value}; it needs no answer")

    def _ring(self, id: str) -> None:
        if id in self._arrivals:
            self._arrivals[id].set()


def _completion(exchange: Exchange) -> Completion:
    """What an exchange came to.

    Raises:
        Refused: If it was refused.
        TransientFailure: If it failed.
    """
    completion = completion_of(exchange)
    if exchange.state is ExchangeState.REFUSED:
        raise LlmRefused(exchange.reason, completion)
    if exchange.state is not ExchangeState.ANSWERED:
        raise TransientFailure(exchange.reason)
    return completion


def completion_of(exchange: Exchange) -> Completion:
    """The answer of an exchange as a backend gives one."""
    return Completion(
        text=exchange.text or "",
        model=exchange.model,
        input_tokens=exchange.input_tokens,
        output_tokens=exchange.output_tokens,
        cost_usd=exchange.cost_usd,
        truncated=exchange.truncated,
    )
