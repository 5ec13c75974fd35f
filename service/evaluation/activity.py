"""Activity of a search: what it does at the moment, in words for people who wait for it."""

from collections import Counter
from datetime import UTC, datetime

from archive.records import ExchangeState, SearchRecord, SearchState
from archive.store import Store
from kernelreef.states import ENDED
from service.evaluation.finalists import FINALISTS
from service.evaluation.jobs import (
    admission_id,
    draft_id,
    finalist_of,
    is_final,
    reference_id,
    retrace_id,
    trace_id,
)
from workers.queue import Dispatcher

MOST_CALLS = 100
"""Maximum number of calls of models that are counted."""


def elapsed_s(search: SearchRecord) -> float:
    """Return the seconds from a search's submission until now, or until its end."""
    until = search.updated_at if search.state in ENDED else datetime.now(UTC)
    return max(0.0, (until - search.created_at).total_seconds())


async def describe_activity(store: Store, dispatcher: Dispatcher, search: SearchRecord) -> str:
    """Describe what a search does now; empty if it is paused or has ended.

    Raises:
        ArchiveError: If the database does not answer.
        QueueUnavailable: If Redis does not answer.
    """
    if search.state not in (SearchState.PREPARING, SearchState.RUNNING):
        return ""
    jobs = await dispatcher.outstanding(search.id)
    if search.state is SearchState.PREPARING:
        return _preparing(search, jobs)
    counts = await store.candidates.count(search.id)
    finals = {finalist_of(job) for job in jobs if is_final(job)}
    if finals or (counts.candidates >= search.evaluations and not counts.in_flight):
        return await _finalists(store, search, len(finals))
    said = [f"{does} {count}" for does, count in sorted(_kinds(jobs).items(), reverse=True)]
    return ", ".join([*said, *await _asking(store, search)]) or "proposing candidates"


def _preparing(search: SearchRecord, jobs: set[str]) -> str:
    if not search.graphs:
        return "preparing the reference"
    if draft_id(search.id) in jobs:
        return "drafting a seed kernel from the reference"
    kinds = _kinds(jobs)
    if not kinds and admission_id(search.id) in jobs:
        return "testing the operator's checks"
    return "tracing the seed kernels" if "tracing" in kinds else "timing the baselines and the seed kernels"


def _kinds(jobs: set[str]) -> Counter[str]:
    """Count the jobs about candidates by what is done with them."""
    kinds: Counter[str] = Counter()
    for job in jobs:
        candidate = job.partition(":")[0]
        if job in (reference_id(candidate), admission_id(candidate), draft_id(candidate)) or is_final(job):
            continue
        kinds["tracing" if job in (trace_id(candidate), retrace_id(candidate)) else "evaluating"] += 1
    return kinds


async def _finalists(store: Store, search: SearchRecord, left: int) -> str:
    tops = [await store.elites.top(search.id, device, search.axes_version, FINALISTS) for device in search.devices]
    total = max(left, sum(map(len, tops)))
    return f"examining finalists, {total - left} of {total} done" if left else "examining finalists"


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
