"""Activity of a search: what it does at the moment, in words for people who wait for it."""

from collections import Counter
from datetime import UTC, datetime

from archive.records import ExchangeState, SearchRecord, SearchState
from archive.store import Store
from service.evaluation.finalists import examination_progress
from service.evaluation.jobs import (
    BASELINES,
    admission_id,
    draft_id,
    is_final,
    purpose_of,
    reference_id,
    retrace_id,
    trace_id,
)
from workers.protocol import Device
from workers.queue import Dispatcher

MOST_CALLS = 100
"""Maximum number of calls of models that are counted."""


def run_until(search: SearchRecord) -> datetime:
    """Return the end of a search, or now if it is open."""
    return search.ended_at or datetime.now(UTC)


def elapsed_s(search: SearchRecord) -> float:
    """Return the seconds from a search's submission until now, or until its end."""
    return max(0.0, (run_until(search) - search.created_at).total_seconds())


async def describe_activity(store: Store, dispatcher: Dispatcher, search: SearchRecord) -> str:
    """Describe what a search does now; empty if it is paused, or has ended and nothing about it is to come.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    if search.state not in (SearchState.PREPARING, SearchState.RUNNING) and not search.finishing:
        return ""
    jobs = await dispatcher.outstanding(search.id)
    if search.state is SearchState.PREPARING:
        return _preparing(search, jobs)
    said = [f"{does} {count}" for does, count in sorted(_kinds(jobs).items(), reverse=True)]
    if search.finishing or any(map(is_final, jobs)):
        said += await _finalists(store, search)
    if search.finishing:
        return ", ".join([*said, *_baselines(search)]) or "finishing"
    return ", ".join([*said, *await _asking(store, search)]) or "proposing candidates"


def _preparing(search: SearchRecord, jobs: set[str]) -> str:
    if not search.graphs:
        return "preparing the reference"
    if draft_id(search.id) in jobs:
        return "drafting a seed kernel from the reference"
    kinds = _kinds(jobs)
    if not kinds and admission_id(search.id) in jobs:
        return "testing the operator's checks"
    # Only the reference seed is evaluated before the search runs; the others may still be traced.
    return "evaluating the reference seed" if "evaluating" in kinds else "tracing the seed kernels"


def _kinds(jobs: set[str]) -> Counter[str]:
    """Count the jobs about candidates by what is done with them."""
    kinds: Counter[str] = Counter()
    for job in jobs:
        candidate = job.partition(":")[0]
        about = (reference_id(candidate), admission_id(candidate), draft_id(candidate))
        if job in about or is_final(job) or purpose_of(job) == BASELINES:
            continue
        kinds["tracing" if job in (trace_id(candidate), retrace_id(candidate)) else "evaluating"] += 1
    return kinds


async def _finalists(store: Store, search: SearchRecord) -> list[str]:
    """Name the finalist that is examined now, by its number; empty if all are examined."""
    progress = await examination_progress(store, search)
    left = progress.examined < progress.finalists
    return [f"examining finalists {progress.examined + 1} of {progress.finalists}"] if left else []


def _baselines(search: SearchRecord) -> list[str]:
    lacking = any(Device.parse(name).measures and name not in search.baselines for name in search.devices)
    return ["timing the baselines"] if lacking else []


async def _asking(store: Store, search: SearchRecord) -> list[str]:
    """Describe the prompts of a search that are without an answer."""
    if search.llm is None:
        return []
    called = len(await store.exchanges.list(search=search.id, state=ExchangeState.ASKED, limit=MOST_CALLS))
    waiting = [
        await store.exchanges.list(search=search.id, state=state, limit=MOST_CALLS)
        for state in (ExchangeState.WAITING, ExchangeState.CLAIMED)
    ]
    prompts = sum(map(len, waiting))
    said = {"asking a model": called, "waiting for answers to prompts": prompts}
    return [f"{does} ({count})" for does, count in said.items() if count]
