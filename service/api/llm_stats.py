"""Statistics of LLM calls by backend and strategy."""

from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel, ConfigDict

from archive.records import SearchRecord
from archive.store import Store
from service.api.dependencies import Named, Running, needs
from service.api.problems import PROBLEMS
from service.emitters import EMITTERS
from service.llm_gateway.strategy_stats import StrategyYields, standings
from service.security.scopes import Scope

router = APIRouter(prefix="/searches/{id}", tags=["prompts"], responses=PROBLEMS)


class LlmStrategyStats(BaseModel):
    """Statistics of one backend and strategy.

    `kind` is the backend's kind (`manual`: a person, `replay`: a recording); null if it is no longer configured.
    `usd` is null if a price is unknown. `hit_rate` is the share of answers for a named cell that put a correct kernel
    there. `repair_rate` is the share of correct repairs. Both are null without such answers. `gain` is the sum of the
    objectives that promotions added, and `gain_per_cost` divides it by the cost, in the `unit` of all rows.
    `cost_per_promotion` and `cost_per_filled` are the cost per cell won and per empty cell filled; null without any.
    """

    model_config = ConfigDict(frozen=True, from_attributes=True)

    backend: str
    kind: str | None = None
    strategy: str
    calls: int
    tokens: int
    usd: float | None
    unusable: int
    candidates: int
    correct: int
    promotions: int
    filled: int
    gain: float
    aimed: int
    hits: int
    hit_rate: float | None
    repairs: int
    repaired: int
    repair_rate: float | None
    gain_per_cost: float | None
    cost_per_promotion: float | None
    cost_per_filled: float | None


class LlmStats(BaseModel):
    """Statistics of a search's LLM calls. `unit` is the unit of costs: the finest one known of all calls."""

    model_config = ConfigDict(frozen=True)

    search: str
    unit: Literal["usd", "tokens", "calls"]
    rows: tuple[LlmStrategyStats, ...]


@router.get("/models", dependencies=[needs(Scope.READ)])
async def models(search: Named, running: Running) -> LlmStats:
    """Return statistics of LLM calls by backend and strategy."""
    found = await standings_of(running.store, search)
    kinds = {status.name: status.kind for status in running.llm_gateway.backends.statuses()}
    rows = (
        LlmStrategyStats.model_validate(row).model_copy(update={"kind": kinds.get(row.backend)}) for row in found.rows
    )
    return LlmStats(search=search.id, unit=found.unit, rows=tuple(rows))


async def standings_of(store: Store, search: SearchRecord) -> StrategyYields:
    """Compute statistics of LLM calls from the archive."""
    asking = [name for name in search.emitters if EMITTERS[name].asks]
    attempts = [item for name in asking for item in await store.attempts.of(search.id, name)]
    landings = [item for name in asking for item in await store.attempts.offers(search.id, name)]
    return standings(
        await store.exchanges.llm_stats(search.id), await store.attempts.asked(search.id), attempts, landings
    )
