"""Manual prompts: a person or program claims one under a lease and answers it once.

The charge reserved for such a prompt has the prompt's id, and is settled or released with it.
"""

import asyncio

from archive.records import Exchange, ExchangeState, LlmReply
from archive.store import Store
from kernelreef.states import ENDED
from service.errors import Conflict
from service.llm import Completion, LlmRefused, TransientFailure

FIRST_LOOK_S = 0.05
LAST_LOOK_S = 5.0
"""Seconds between polls for an answer that another process took; they double from the first to the last."""
QUEUED = (ExchangeState.WAITING, ExchangeState.CLAIMED)
WITHDRAWN = "withdrawn: the search has ended"


class ManualPrompts:
    """Manual prompts in the archive, and the calls of this process that wait for their answers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._arrivals: dict[str, asyncio.Event] = {}

    async def wait_for(self, id: str) -> Completion:
        """Wait for the answer to an exchange, however long it takes.

        Raises:
            LlmRefused: If the answerer refused.
            TransientFailure: If the prompt was withdrawn.
        """
        arrived = self._arrivals.setdefault(id, asyncio.Event())
        look_s = FIRST_LOOK_S
        try:
            while True:
                arrived.clear()
                exchange = await self._store.exchanges.get(id)
                if exchange.state not in QUEUED:
                    return completion_of(exchange)
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
            Conflict: If another answerer holds it, it needs no answer, or its search has ended.
        """
        await self._require_open(id)
        return await self._store.exchanges.claim(id, holder, lease_s)

    async def renew(self, id: str, holder: str, lease_s: float) -> Exchange:
        """Extend the lease of a claimed prompt to so many seconds from now.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            Conflict: If the answerer no longer holds it, or its search has ended.
        """
        await self._require_open(id)
        return await self._store.exchanges.renew(id, holder, lease_s)

    async def release(self, id: str, holder: str) -> Exchange:
        """Release a claimed prompt.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            archive.errors.RecordConflict: If the answerer does not hold it.
        """
        return await self._store.exchanges.release(id, holder)

    async def answer(self, id: str, holder: str, reply: LlmReply) -> Exchange:
        """Answer a prompt that is waiting or claimed by this answerer, and settle its charge.

        Raises:
            archive.errors.RecordNotFound: If there is no such prompt.
            Conflict: If another answerer holds it, it has a different answer, or its search has ended.
        """
        await self._require_open(id)
        answered = await self._store.exchanges.answer(id, reply, charge=id, claimed_by=holder)
        self._ring(id)
        return answered

    async def withdraw(self, search: str) -> int:
        """Withdraw every unanswered prompt of a search; returns their number."""
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
        """Require that the search of an exchange can still use an answer."""
        exchange = await self._store.exchanges.get(id)
        search = await self._store.searches.get(exchange.search)
        if exchange.state in QUEUED and search.state in ENDED:
            await self.withdraw(search.id)
            raise Conflict(f"the search of prompt {id} is {search.state.value}; it needs no answer")

    def _ring(self, id: str) -> None:
        if id in self._arrivals:
            self._arrivals[id].set()


def completion_of(exchange: Exchange) -> Completion:
    """Return the answer of an ended exchange.

    Raises:
        LlmRefused: If it was refused.
        TransientFailure: If it failed.
    """
    completion = Completion(
        text=exchange.text or "",
        model=exchange.model,
        input_tokens=exchange.input_tokens,
        output_tokens=exchange.output_tokens,
        cost_usd=exchange.cost_usd,
        truncated=exchange.truncated,
    )
    if exchange.state is ExchangeState.REFUSED:
        raise LlmRefused(exchange.reason, completion)
    if exchange.state is not ExchangeState.ANSWERED:
        raise TransientFailure(exchange.reason)
    return completion
