"""Results of asking models, by backend and strategy: pure functions of the archive's records."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from archive.records import Attempt, ExchangeState, ExchangeSummary, OfferOutcome, StrategyStatsRecord
from service.emitters.base import StrategyRecord
from service.emitters.llm.strategies import REPAIR
from workers.protocol import Outcome

Unit = Literal["usd", "tokens", "calls"]
ENDED = (ExchangeState.ANSWERED, ExchangeState.REFUSED)
"""States of exchanges with an answer or a refusal."""


@dataclass(frozen=True)
class StrategyYield:
    """Results of one strategy at one backend within one search.

    Attributes:
        backend: Name of the backend.
        strategy: Name of the strategy.
        calls: Number of calls that were, or may have been, charged.
        tokens: Number of tokens of prompts and answers.
        usd: Cost in US dollars; None if a price is unknown.
        unusable: Number of answers without a usable candidate, refusals included.
        candidates: Number of candidates from answers, variations of a template included.
        correct: Number of these that were correct.
        promotions: Number of cells that these won.
        filled: Number of these cells that were empty before.
        gain: Increase of the sum of the elites' objectives.
        aimed: Number of answers that were to fill a named cell.
        hits: Number of these that led to a correct kernel in that cell.
        repairs: Number of answers that were to repair a failure.
        repaired: Number of these that led to a correct kernel.
        gain_per_cost: `gain` divided by the cost in the common unit; None if the cost is zero.
        cost_per_promotion: Cost in that unit divided by `promotions`; None without promotions.
        cost_per_filled: Cost in that unit divided by `filled`; None if it is zero.
    """

    backend: str
    strategy: str
    calls: int = 0
    tokens: int = 0
    usd: float | None = None
    unusable: int = 0
    candidates: int = 0
    correct: int = 0
    promotions: int = 0
    filled: int = 0
    gain: float = 0.0
    aimed: int = 0
    hits: int = 0
    repairs: int = 0
    repaired: int = 0
    gain_per_cost: float | None = None
    cost_per_promotion: float | None = None
    cost_per_filled: float | None = None

    @property
    def hit_rate(self) -> float | None:
        """Share of aimed answers that hit; None if no answer was aimed."""
        return self.hits / self.aimed if self.aimed else None

    @property
    def repair_rate(self) -> float | None:
        """Share of repairs that ended correct; None without repairs."""
        return self.repaired / self.repairs if self.repairs else None


@dataclass(frozen=True)
class StrategyYields:
    """Results of a search. `unit` is the cost unit of all rows: the finest that is known of every call."""

    unit: Unit
    rows: tuple[StrategyYield, ...]


def standings(
    arms: Sequence[StrategyStatsRecord],
    asked: Sequence[ExchangeSummary],
    attempts: Sequence[Attempt],
    landings: Sequence[OfferOutcome],
) -> StrategyYields:
    """Summarise spending, exchanges, candidates from models, and their offers, by backend and strategy."""
    unit = _unit(arms)
    paid = {(arm.backend, arm.strategy): arm for arm in arms}
    keys = sorted({*paid, *((item.backend, item.strategy) for item in asked)})
    families = _families(asked, attempts)
    rows = []
    for backend, strategy in keys:
        mine = [item for item in asked if (item.backend, item.strategy) == (backend, strategy)]
        arm = paid.get((backend, strategy), StrategyStatsRecord("", backend, strategy, 0, 0, 0.0, 0, 0))
        rows.append(_standing(arm, unit, mine, families, landings))
    return StrategyYields(unit, tuple(rows))


def records(found: StrategyYields) -> tuple[StrategyRecord, ...]:
    """Return the results in the form that the choice of the next strategy needs."""
    return tuple(
        StrategyRecord(row.backend, row.strategy, row.calls, cost_of(row, found.unit), row.promotions, row.gain)
        for row in found.rows
    )


def cost_of(row: StrategyYield, unit: Unit) -> float:
    """Return a row's cost in a unit."""
    return {"usd": row.usd or 0.0, "tokens": float(row.tokens), "calls": float(row.calls)}[unit]


def _unit(arms: Iterable[StrategyStatsRecord]) -> Unit:
    called = [arm for arm in arms if arm.calls]
    if called and all(arm.unpriced == 0 and arm.usd > 0 for arm in called):
        return "usd"
    return "tokens" if called and all(arm.tokens > 0 for arm in called) else "calls"


def _families(asked: Sequence[ExchangeSummary], attempts: Sequence[Attempt]) -> Mapping[str, Sequence[Attempt]]:
    """Return the candidates from each exchange's answer, and the one that it had judged.

    Candidates of earlier releases do not know their exchange: variations of a template have its first candidate as
    their only parent.
    """
    known = {attempt.id: attempt for attempt in attempts}
    first = {item.candidate: item.id for item in reversed(asked) if item.candidate in known}
    found = {item.id: {item.candidate: known[item.candidate]} for item in asked if item.candidate in known}
    for attempt in attempts:
        exchange = attempt.exchange
        if exchange is None and attempt.id not in first and len(attempt.parents) == 1:
            exchange = first.get(attempt.parents[0])
        if exchange is not None:
            found.setdefault(exchange, {})[attempt.id] = attempt
    return {id: list(family.values()) for id, family in found.items()}


def _standing(
    arm: StrategyStatsRecord,
    unit: Unit,
    asked: Sequence[ExchangeSummary],
    families: Mapping[str, Sequence[Attempt]],
    landings: Sequence[OfferOutcome],
) -> StrategyYield:
    cells: dict[str, set[int]] = {}
    gains: dict[str, list[float]] = {}
    for landing in landings:
        cells.setdefault(landing.candidate, set()).add(landing.cell)
        gains.setdefault(landing.candidate, []).extend([] if landing.gain is None else [landing.gain])
    came = {item.id: families.get(item.id, ()) for item in asked}
    family = {attempt.id: attempt for members in came.values() for attempt in members}
    won = [gain for id in family for gain in gains.get(id, ())]
    filled = sum(landing.filled for landing in landings if landing.candidate in family)
    over = [item for item in asked if item.state in ENDED and item.outcome != "step"]
    over = [item for item in over if item.outcome is not None or item.state is ExchangeState.REFUSED]
    aimed = [item for item in over if item.cell is not None]
    repairs = [item for item in over if item.strategy == REPAIR]
    row = StrategyYield(
        backend=arm.backend,
        strategy=arm.strategy,
        calls=arm.calls,
        tokens=arm.tokens,
        usd=None if arm.unpriced else arm.usd,
        unusable=sum(item.outcome == "unusable" or item.state is ExchangeState.REFUSED for item in over),
        candidates=len(family),
        correct=sum(attempt.outcome == Outcome.CORRECT for attempt in family.values()),
        promotions=len(won),
        filled=filled,
        gain=sum(won),
        aimed=len(aimed),
        hits=sum(any(item.cell in cells.get(each.id, ()) for each in came[item.id]) for item in aimed),
        repairs=len(repairs),
        repaired=sum(any(each.outcome == Outcome.CORRECT for each in came[item.id]) for item in repairs),
    )
    cost = cost_of(row, unit)
    return replace(
        row,
        gain_per_cost=row.gain / cost if cost else None,
        cost_per_promotion=cost / row.promotions if row.promotions else None,
        cost_per_filled=cost / row.filled if row.filled else None,
    )
