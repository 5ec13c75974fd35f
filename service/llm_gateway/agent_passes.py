"""Passes of agents that the service starts: a token of one search that ends with the agent's time."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from archive.store import Store
from service.discovery import find_service
from service.llm import PermanentFailure
from service.llm.options import AgentPass
from service.security.authentication import issue, utc_now
from service.security.scopes import Scope, SearchGrant

NO_SERVICE = "an agent needs a running service: start `reef serve` on this data folder"
NO_TOKENS = (
    "nobody needs a token here, so an agent could do all that its owner can; create one first: reef token create me, "
    "then enable the backend: reef backends enable"
)


class AgentPasses:
    """Issues passes, and revokes each when its agent has ended."""

    def __init__(self, store: Store, folder: Path) -> None:
        """Prepare; the service that serves the data folder `folder` is the one that agents are let into."""
        self._store = store
        self._folder = folder

    @asynccontextmanager
    async def admit(self, exchange: str, evaluations: int, seconds: float) -> AsyncIterator[AgentPass]:
        """Let an agent into the search of an exchange, for the block and no longer than so many seconds.

        Raises:
            PermanentFailure: If no service serves the data folder, or it asks no caller for a token.
        """
        url = find_service(self._folder)
        if url is None:
            raise PermanentFailure(NO_SERVICE)
        if not await self._store.tokens.is_there_any():
            raise PermanentFailure(NO_TOKENS)
        search = (await self._store.exchanges.get(exchange)).search
        token, text = await issue(
            self._store,
            f"agent {exchange[-6:]}",
            (Scope.READ, Scope.PROPOSE),
            expires_at=utc_now() + timedelta(seconds=seconds),
            grant=SearchGrant(search, exchange, evaluations),
        )
        try:
            yield AgentPass(url, text, search)
        finally:
            await self._store.tokens.revoke(token.id)
