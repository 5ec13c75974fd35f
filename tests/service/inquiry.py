"""A search that may ask models, over a real archive, and vendors that do what a test wants."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archive.records import BudgetRecord, SearchRecord
from archive.store import Store
from service.llm import LlmAnswer, LlmPrompt, Purpose
from service.llm_gateway.gateway import LlmGateway
from service.requests import LlmSettings
from tests.archive.samples import stored_search
from tests.archives import opened

PROMPT = LlmPrompt("You write kernels.", "Make it faster.", 100)
FREE = {"input_usd_per_mtok": 1.0, "output_usd_per_mtok": 10.0}


@dataclass
class Inquiry:
    """One running `LlmGateway` with a search of its own."""

    store: Store
    llm_gateway: LlmGateway
    search: SearchRecord
    folder: Path

    async def ask(self, ordinal: int = 0, backend: str | None = None, **changes: Any) -> LlmAnswer:
        """Ask for one proposal of the search."""
        return await self.llm_gateway(
            changes.pop("prompt", PROMPT), purpose(self.search.id, ordinal, **changes), backend
        )

    async def spent(self, backend: str = "") -> tuple[int, int, float]:
        """Calls, tokens and dollars of the search, reservations included."""
        budgets = {budget.backend: of(budget) for budget in await self.store.spending.of_search(self.search.id)}
        return budgets.get(backend, (0, 0, 0.0))

    async def states(self) -> list[str]:
        """States of the search's exchanges, oldest first."""
        found = await self.store.exchanges.list(search=self.search.id, oldest_first=True, limit=1000)
        return [exchange.state.value for exchange in found]


def of(purse: BudgetRecord) -> tuple[int, int, float]:
    return purse.calls, purse.tokens, purse.usd


def purpose(search: str, ordinal: int = 0, **changes: Any) -> Purpose:
    values: dict[str, Any] = {
        "step": 0,
        "strategy": "improve",
        "template": "improve@1",
        "claims": {"time": "job-1"},
        "parents": (),
        "cell": None,
    }
    return Purpose(search=search, ordinal=ordinal, **{**values, **changes})


def configure(folder: Path, text: str) -> None:
    """Write `backends.toml`."""
    folder.mkdir(exist_ok=True)
    (folder / "backends.toml").write_text(text)


def endpoint(url: str, name: str = "local", **changes: object) -> str:
    """Lines of the file for an endpoint, with a price."""
    given = {"kind": "openai", "base_url": f"{url}/v1", "model": "m", "timeout_s": 5, **changes}
    lines = [f"{key} = {value if isinstance(value, int | float) else repr(value)}" for key, value in given.items()]
    price = "[prices.m]\ninput_usd_per_mtok = 1.0\noutput_usd_per_mtok = 10.0\n"
    return "\n".join([f"[backends.{name}]", *lines, "", price])


@asynccontextmanager
async def inquiry(folder: Path, text: str = "", **terms: Any) -> AsyncIterator[Inquiry]:
    """Open an archive in a folder, with a search that may ask what the file and its terms allow."""
    configure(folder, text)
    async with opened(folder) as store:
        asked = LlmSettings(**{"backends": ("local",), **terms}).model_dump(mode="json")
        search = await stored_search(store, llm=asked)
        llm_gateway = LlmGateway(store, folder)
        try:
            yield Inquiry(store, llm_gateway, search, folder)
        finally:
            await llm_gateway.close()


async def until(condition: Any, timeout_s: float = 10.0) -> None:
    """Wait until something asynchronous is true."""
    async with asyncio.timeout(timeout_s):
        while not await condition():
            await asyncio.sleep(0.01)
