"""What each emitter of a search brought for its cost lately: the accounts that the bandit goes by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from archive.records import SearchRecord, StrategyStatsRecord
from archive.store import Store
from service.emitters import EMITTERS
from service.emitters.bandit import ArmStats, shares
from service.emitters.base import EmitterTrial
from service.requests import Selection

WINDOW = 64
"""Judged proposals of an emitter that count. Our choice: enough for rates to mean something, and few enough that an
emitter whose hour has passed, or whose rules fail on new parents, is seen anew."""
LANDINGS = 4 * WINDOW
"""Offers that are looked through for theirs: a candidate makes one for each variant and device."""


@dataclass(frozen=True)
class EmitterStats:
    """All emitters of a search that propose while it runs.

    Attributes:
        accounts: By name; costs are in evaluations. All are empty where a search goes without the bandit.
        trials: By name, newest first.
    """

    accounts: Mapping[str, ArmStats]
    trials: Mapping[str, tuple[EmitterTrial, ...]]


@dataclass(frozen=True)
class EmitterShare:
    """What an emitter gets of the turns from now on, and why.

    Attributes:
        emitter: Which.
        share: Of the turns, 0 to 1.
        tries: Its judged proposals that count.
        promotions: Of these, those that won a cell.
        gain: Objective that these added to the archive.
        cost: What they cost, in evaluations.
        resting: What it does not try at present, each with the reason.
    """

    emitter: str
    share: float
    tries: int
    promotions: int
    gain: float
    cost: float
    resting: Mapping[str, str]


def turns_of(stats: EmitterStats) -> tuple[EmitterShare, ...]:
    """How a search's turns are shared out now, in the order of its emitters."""
    found = shares(stats.accounts, list(stats.accounts))
    return tuple(
        EmitterShare(
            emitter=name,
            share=found[name],
            tries=account.tries,
            promotions=account.promotions,
            gain=account.gain,
            cost=account.cost,
            resting=EMITTERS[name].resting(stats.trials[name]),
        )
        for name, account in stats.accounts.items()
    )


def choosing_of(search: SearchRecord) -> Selection:
    """How a search chooses what to try."""
    return Selection.model_validate(search.choosing or {})


def active(search: SearchRecord) -> list[str]:
    """Emitters that propose while a search runs; names of none, from another version, are left out."""
    return [name for name in search.emitters if name in EMITTERS and not EMITTERS[name].proposes_draft]


async def read_stats(store: Store, search: SearchRecord) -> EmitterStats:
    """The accounts of a search as the archive has them now."""
    accounts, trials = dict[str, ArmStats](), dict[str, tuple[EmitterTrial, ...]]()
    for name in active(search):
        trials[name] = await _trials(store, search, name)
        gains = [trial.gain for trial in trials[name] if trial.gain is not None]
        price = await _price(store, search, name)
        tried = ArmStats(len(trials[name]), len(trials[name]) * price, len(gains), sum(gains))
        accounts[name] = tried if choosing_of(search).bandit else ArmStats()
    return EmitterStats(accounts, trials)


async def _trials(store: Store, search: SearchRecord, name: str) -> tuple[EmitterTrial, ...]:
    gains: dict[str, float] = {}
    for landing in await store.attempts.landings(search.id, name, LANDINGS):
        if landing.gain is not None:
            gains[landing.candidate] = gains.get(landing.candidate, 0.0) + landing.gain
    found = await store.candidates.trials(search.id, name, WINDOW)
    return tuple(
        EmitterTrial(item.note, item.outcome, item.objective, item.parents, gains.get(item.candidate), item.ordinal)
        for item in found
    )


async def _price(store: Store, search: SearchRecord, name: str) -> float:
    """What a proposal costs, in evaluations: its own, and of those that ask models the share of the limits it uses."""
    if not EMITTERS[name].asks:
        return 1.0
    arms = await store.exchanges.arms(search.id)
    candidates = sum(arm.candidates for arm in arms)
    return 1.0 + spent_share(search.llm or {}, arms) * search.budget / max(1, candidates)


def spent_share(terms: Mapping[str, object], arms: Sequence[StrategyStatsRecord]) -> float:
    """The largest part of a search's limits on models that is used up, 0 to 1; without limits a call is an evaluation.

    Args:
        terms: The limits: `usd`, `tokens` and `calls`.
        arms: What was paid.
    """
    used = {name: float(sum(getattr(arm, name) for arm in arms)) for name in ("usd", "tokens", "calls")}
    limits = {name: float(limit) for name in used if isinstance(limit := terms.get(name), int | float)}
    return min(1.0, max((used[name] / limit for name, limit in limits.items()), default=0.0))
