"""The first page: every search, who works, and a form to start one."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from archive.grid import Grid
from archive.records import Milestone, ProgressRecord, SearchCounts, SearchRecord, SearchState
from service.coordinator import Coordinator
from service.dashboard.charts import ProgressLine, course, spacing_for
from service.dashboard.formatting import evaluations, share
from service.dashboard.new_search import NewSearchForm
from service.dashboard.rendering import Fragment, HtmlPage
from service.evaluation.figure_labels import provenance, relative_to

SHOWN = 15
"""Searches on one page."""
SPARK_POINTS = 48
"""Points of a sparkline at most, or thereabouts; it is a few dozen pixels wide."""


@dataclass(frozen=True)
class BestResult:
    """What a search has found on one device; `low` to `high` are the bounds of its best elite's speedup."""

    device: str
    provenance: str
    relative_to: str
    best: float | None
    low: float | None
    high: float | None
    coverage: float
    spark: ProgressLine


@dataclass(frozen=True)
class SearchRow:
    """A search in the list. `spent_usd` is what models cost it, None where it may ask none."""

    search: SearchRecord
    counts: SearchCounts
    finds: tuple[BestResult, ...]
    spent_usd: float | None = None

    @property
    def done(self) -> float:
        """Share of the evaluations that is used up, 0 to 1."""
        return min(self.counts.candidates / self.search.evaluations, 1.0)


@dataclass(frozen=True)
class PoolStatus(Fragment):
    """Who works, and how much waits."""

    template = "parts/pulse.html"
    name = "pulse"

    workers: int
    busy: int
    jobs: int
    running: int


@dataclass(frozen=True)
class SearchList(Fragment):
    """The list of searches, newest first; `older` leads to the rest."""

    template = "parts/searches.html"
    name = "searches"

    entries: tuple[SearchRow, ...]
    older: str | None
    newest: bool


@dataclass(frozen=True)
class Overview(HtmlPage):
    """The first page."""

    template = "overview.html"
    section = "/"
    live = True

    pulse: PoolStatus
    searches: SearchList
    form: NewSearchForm
    before: str | None = None

    @property
    def title(self) -> str:
        """What is listed."""
        return "Searches"

    @property
    def stream(self) -> str:
        """Where its updates come from."""
        return "/live" + (f"?before={self.before}" if self.before else "")


async def load_overview_parts(running: Coordinator, before: str | None) -> tuple[PoolStatus, SearchList]:
    """The live parts of the first page."""
    found = await running.store.searches.list(limit=SHOWN + 1, before=before)
    shown = found[:SHOWN]
    entries = await asyncio.gather(*(_entry(running, search) for search in shown))
    workers, depth = await running.workers(), await running.queue_depth()
    active = (SearchState.RUNNING, SearchState.PREPARING)
    pulse = PoolStatus(
        workers=len(workers),
        busy=sum(worker.busy is not None for worker in workers),
        jobs=sum(depth.values()),
        running=sum(search.state in active for search in shown),
    )
    older = f"/?before={shown[-1].id}" if len(found) > SHOWN else None
    return pulse, SearchList(tuple(entries), older, before is None)


async def _entry(running: Coordinator, search: SearchRecord) -> SearchRow:
    counts = await running.store.candidates.count(search.id)
    finds = tuple([await _find(running, search, device, counts) for device in search.devices])
    purses = await running.store.spending.of_search(search.id) if search.llm is not None else []
    return SearchRow(search, counts, finds, purses[0].usd if purses else None)


async def _find(running: Coordinator, search: SearchRecord, device: str, counts: SearchCounts) -> BestResult:
    store = running.store
    progress = await store.elites.progress(search.id, device, Grid(search.axes).cells)
    best = await store.elites.best(search.id, device)
    spacing = spacing_for(counts.evaluated, SPARK_POINTS)
    milestones = await store.views.milestones(search.id, device, spacing=spacing) if best else []
    return BestResult(
        device=device,
        provenance=provenance(device),
        relative_to=relative_to(device),
        best=best.mid if best else None,
        low=best.low if best else None,
        high=best.high if best else None,
        coverage=progress.coverage,
        spark=_spark(milestones, progress),
    )


def _spark(milestones: Sequence[Milestone], now: ProgressRecord) -> ProgressLine:
    """Coverage over evaluations, in the size of a word."""
    points = [(0.0, 0.0), *((float(each.evaluations), each.elites / now.cells) for each in milestones)]
    present = (float(now.evaluated), now.coverage)
    return course("Coverage", [*points, present] if now.elites else [], share, evaluations)
