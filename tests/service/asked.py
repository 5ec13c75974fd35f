"""A workbench whose searches ask models: prompts wait for the test, or are answered out of a recording."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path

from archive.records import Exchange, ExchangeState, LlmReply, NewSearch, SearchRecord, SearchState
from service.llm import Completion, LlmPrompt, Replay
from service.llm_gateway.gateway import LlmGateway
from service.scheduler.backpressure import CandidateLimits
from service.scheduler.evolution import Evolution
from tests.service import records
from tests.service.workbench import Workbench

BACKENDS = '[backends.replay]\nkind = "replay"\npath = "recording.jsonl"\n'
FINAL = (SearchState.DONE, SearchState.FAILED, SearchState.STOPPED)
SEED = records.TUNABLE.lstrip()


@dataclass
class Asked:
    """A workbench, and whoever answers."""

    bench: Workbench
    llm_gateway: LlmGateway
    folder: Path

    @classmethod
    async def open(cls, folder: Path, redis_url: str, *, in_flight: int = 1) -> "Asked":
        """Open an archive in `folder`; opening again is a restart."""
        (folder / "backends.toml").write_text(BACKENDS)
        bench = await Workbench.open(folder, redis_url, in_flight=in_flight)
        llm_gateway = LlmGateway(bench.store, folder)
        limits = CandidateLimits(per_search=in_flight, per_owner=100, in_all=100)
        bench.evolution = Evolution(bench.store, bench.dispatcher, bench.events, limits=limits, ask=llm_gateway)
        return cls(bench, llm_gateway, folder)

    async def close(self) -> None:
        """A clean end."""
        await self.bench.evolution.stop()
        await self.llm_gateway.close()
        await self.bench.close()

    async def begin(
        self, *, backend: str = "manual", terms: dict[str, object] | None = None, **changes: object
    ) -> SearchRecord:
        """Start a search that asks one backend."""
        llm = {"backends": [backend], "strategies": ["improve"], **(terms or {})}
        values = {"emitters": ("llm",), "state": SearchState.PREPARING, "llm": llm, **changes}
        template = records.search(**values)
        operator = records.OPERATOR
        await self.bench.store.operators.put(operator.digest, operator.name, operator.model_dump_json())
        given = {item.name: getattr(template, item.name) for item in fields(NewSearch)}
        search = await self.bench.store.searches.create(NewSearch(**given))
        await self.bench.evolution.sweep(search)
        return search

    async def waiting(self, search: SearchRecord) -> list[Exchange]:
        """Prompts that wait for an answer, oldest first."""
        store = self.bench.store
        found = await store.exchanges.list(search=search.id, state=ExchangeState.WAITING, oldest_first=True)
        return [await store.exchanges.get(item.id) for item in found]

    async def answer(self, search: SearchRecord, say: Callable[[Exchange], str]) -> int:
        """Answer all prompts that wait; how many there were."""
        found = await self.waiting(search)
        for exchange in found:
            await self.llm_gateway.manual.answer(exchange.id, "tester", LlmReply(say(exchange), "person", 0, 0, None))
        return len(found)

    async def step(self, search: SearchRecord) -> SearchRecord:
        """One tick, and the worker's answers."""
        await self.bench.evolution.tick()
        await asyncio.to_thread(self.bench.work)
        await asyncio.sleep(0.02)
        return await self.bench.store.searches.get(search.id)

    async def run(
        self, search: SearchRecord, say: Callable[[Exchange], str] | None = None, *, rounds: int = 300
    ) -> SearchRecord:
        """Go on until the search ends."""
        for _ in range(rounds):
            search = await self.step(search)
            if search.state in FINAL:
                return search
            if say is not None:
                await self.answer(search, say)
        raise AssertionError(f"the search is still {search.state} after {rounds} rounds")

    async def record(self, search: SearchRecord) -> int:
        """Write a search's exchanges into the recording; how many there were."""
        replay, store = Replay(self.folder / "recording.jsonl"), self.bench.store
        found = await store.exchanges.list(search=search.id, limit=1000, oldest_first=True)
        for item in found:
            exchange = await store.exchanges.get(item.id)
            prompt = LlmPrompt(exchange.system, exchange.user, exchange.max_tokens)
            await replay.record(prompt, Completion(exchange.text or "", exchange.model, 0, 0, None))
        return len(found)

    async def history(self, search: SearchRecord) -> list[tuple[int, str, str, str | None, float | None]]:
        """What a search proposed, and what came of it, in order."""
        found = await self.bench.store.candidates.list(search.id, limit=1000)
        return [(item.ordinal, item.source, item.note, item.outcome, item.objective) for item in reversed(found)]
