"""Strategies of the emitter `llm`, and the bandit that chooses among backends and strategies."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from service.emitters import bandit
from service.emitters.base import LlmContext, Parent, ProposalContext, StrategyRecord

SCRATCH, IMPROVE, EXPLORE, CROSS = "scratch", "improve", "explore", "cross"
REPAIR, TUNE, AGENTIC = "repair", "tune", "agentic"
STRATEGIES = (SCRATCH, IMPROVE, EXPLORE, CROSS, REPAIR, TUNE, AGENTIC)
"""All strategies; each has a template of its name. `docs/how-to/use-a-model-key.md` explains each."""


@dataclass(frozen=True)
class Approach:
    """Choice for one proposal.

    Attributes:
        strategy: Name of the strategy.
        backend: Name of the backend.
        parents: Kernels that the prompt shows; edits refer to the first.
        cell: Cell to aim at; None for any.
    """

    strategy: str
    backend: str
    parents: tuple[Parent, ...]
    cell: int | None = None


def approach(context: ProposalContext, llm: LlmContext) -> Approach | None:
    """Choose backend and strategy: those of a resumed proposal, or the bandit's. None if nothing is possible."""
    if llm.begun is not None:
        backend, strategy = llm.begun
        return Approach(strategy, backend, context.parents, llm.cell)
    possible = {name: found for name in llm.strategies if (found := parents_for(name, context, llm)) is not None}
    arms = [(backend, strategy) for backend in llm.backends for strategy in possible]
    if not arms:
        return None
    backend, strategy = draw(llm.records, arms, context.rng)
    return Approach(strategy, backend, possible[strategy], llm.cell if strategy == EXPLORE else None)


def parents_for(strategy: str, context: ProposalContext, llm: LlmContext) -> tuple[Parent, ...] | None:
    """Return the kernels that a strategy works on; None if it is not possible now."""
    chosen, others = context.parents[:1], tuple(item for item in context.parents[1:] if item != context.parents[0])
    match strategy:
        case "scratch":
            return ()
        case "explore":
            return None if llm.cell is None else (*llm.neighbours[:1], *chosen)[:1]
        case "cross":
            return (*chosen, others[0]) if others else None
        case "repair":
            return None if llm.broken is None else (llm.broken,)
        case _:
            return chosen


def draw(records: Sequence[StrategyRecord], arms: Sequence[tuple[str, str]], rng: random.Random) -> tuple[str, str]:
    """Draw the backend and the strategy to try now, by promoted gain per cost.

    Args:
        records: Statistics of all pairs tried so far.
        arms: Pairs of backend and strategy to choose from; at least one.
        rng: The only source of randomness.
    """
    accounts = {
        (item.backend, item.strategy): bandit.ArmStats(item.calls, item.cost, item.promotions, item.gain)
        for item in records
    }
    return bandit.draw(accounts, arms, rng)
