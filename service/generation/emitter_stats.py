"""Statistics of each emitter in a search: recent gain and cost, which the bandit uses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archive.records import SearchRecord, StrategyStatsRecord
from archive.store import Store
from service.emitters import EMITTERS
from service.emitters.bandit import ArmStats, shares
from service.emitters.base import EmitterTrial
from service.requests import Selection

WINDOW = 64
"""Number of an emitter's newest evaluated proposals that count. Our choice: enough for stable rates, and few enough
that an emitter that no longer pays, or whose rules fail on new parents, is noticed."""
OFFERS = 4 * WINDOW
"""Number of offers that are read to find those of these proposals: a candidate makes one per variant and device."""


@dataclass(frozen=True)
class EmitterStats:
    """Statistics of all emitters that propose while a search runs.

    Attributes:
        accounts: Statistics by name, with costs in evaluations; all empty if a search does not use the bandit.
        trials: Recent trials by name, newest first.
    """

    accounts: Mapping[str, ArmStats]
    trials: Mapping[str, tuple[EmitterTrial, ...]]


@dataclass(frozen=True)
class EmitterShare:
    """Share of the next turns that an emitter gets, and the statistics behind it.

    Attributes:
        emitter: Name of the emitter.
        share: Share of the turns, 0 to 1.
        trials: Number of its evaluated proposals that count.
        promotions: Number of these that won a cell.
        gain: Objective that these added to the archive.
        cost: Cost of these trials, in evaluations.
        suspended: Suspended parts of the emitter, each with the reason.
    """

    emitter: str
    share: float
    trials: int
    promotions: int
    gain: float
    cost: float
    suspended: Mapping[str, str]


def emitter_shares(stats: EmitterStats) -> tuple[EmitterShare, ...]:
    """Return the share of turns of each emitter now, in the order of the search's emitters."""
    found = shares(stats.accounts, list(stats.accounts))
    return tuple(
        EmitterShare(
            emitter=name,
            share=found[name],
            trials=account.tries,
            promotions=account.promotions,
            gain=account.gain,
            cost=account.cost,
            suspended=EMITTERS[name].suspended(stats.trials[name]),
        )
        for name, account in stats.accounts.items()
    )


def selection_of(search: SearchRecord) -> Selection:
    """Return the selection settings of a search."""
    return Selection.model_validate(search.selection or {})


def active(search: SearchRecord) -> list[str]:
    """List the emitters that take turns while a search runs; unknown names, from another version, are left out.

    One that only receives what others submit takes none, unless the search names agents for it.
    """
    known = [name for name in search.emitters if name in EMITTERS and not EMITTERS[name].proposes_draft]
    agents = bool((search.llm or {}).get("agents"))
    return [name for name in known if agents or not EMITTERS[name].receives]


def receives(search: SearchRecord) -> bool:
    """Return True if a search takes candidates that others submit, so that it waits for them."""
    return any(EMITTERS[name].receives for name in search.emitters if name in EMITTERS)


async def read_stats(store: Store, search: SearchRecord) -> EmitterStats:
    """Read the emitter statistics of a search from the archive."""
    accounts, trials = dict[str, ArmStats](), dict[str, tuple[EmitterTrial, ...]]()
    for name in active(search):
        trials[name] = await _trials(store, search, name)
        gains = [trial.gain for trial in trials[name] if trial.gain is not None]
        price = await _price(store, search, name)
        tried = ArmStats(len(trials[name]), len(trials[name]) * price, len(gains), sum(gains))
        accounts[name] = tried if selection_of(search).bandit else ArmStats()
    return EmitterStats(accounts, trials)


async def _trials(store: Store, search: SearchRecord, name: str) -> tuple[EmitterTrial, ...]:
    gains: dict[str, float] = {}
    for offer in await store.attempts.offers(search.id, name, OFFERS):
        if offer.gain is not None:
            gains[offer.candidate] = gains.get(offer.candidate, 0.0) + offer.gain
    found = await store.candidates.trials(search.id, name, WINDOW)
    return tuple(
        EmitterTrial(item.note, item.outcome, item.objective, item.parents, gains.get(item.candidate), item.ordinal)
        for item in found
    )


async def _price(store: Store, search: SearchRecord, name: str) -> float:
    """Return the cost of a proposal in evaluations: 1, plus the share of the LLM limits that it uses."""
    if not EMITTERS[name].asks:
        return 1.0
    arms = await store.exchanges.llm_stats(search.id)
    candidates = sum(arm.candidates for arm in arms)
    return 1.0 + spent_share(search.llm or {}, arms) * search.evaluations / max(1, candidates)


def spent_share(terms: Mapping[str, object], arms: Sequence[StrategyStatsRecord]) -> float:
    """Return the largest used-up share of a search's LLM limits, 0 to 1; 0 without limits.

    Args:
        terms: The limits: `usd`, `tokens` and `calls`.
        arms: Statistics by backend and strategy, which hold the spending.
    """
    used = {name: float(sum(getattr(arm, name) for arm in arms)) for name in ("usd", "tokens", "calls")}
    limits = {name: float(limit) for name in used if isinstance(limit := terms.get(name), int | float)}
    return min(1.0, max((used[name] / limit for name, limit in limits.items()), default=0.0))
