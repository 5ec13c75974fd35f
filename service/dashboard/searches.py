"""Routes of searches: the first page with the form for a new search, one search, and their live updates."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import ValidationError

from archive.errors import ArchiveError
from archive.grid import Grid
from archive.records import BudgetRecord, Milestone, ProgressRecord, SearchCounts, SearchRecord, SearchState
from service.api.dependencies import Caller, Named, RequireScope, Running, needs
from service.api.paging import ID
from service.coordinator import Coordinator
from service.dashboard.charts import ProgressLine, progress_line, spacing_for
from service.dashboard.clones import request_of
from service.dashboard.formatting import evaluations, share
from service.dashboard.imports import respond_step_by_step
from service.dashboard.live import stream
from service.dashboard.maps import MapView
from service.dashboard.new_search import (
    NewSearchForm,
    convert_problem,
    filled_in,
    has_problem,
    problem_name,
    read_request,
    start_form,
    wrong_fields,
)
from service.dashboard.rendering import Fragment, HtmlPage, PageFrame, render_fragment, respond
from service.dashboard.routing import Framed, Sent, SubmittedForm, pages, see_other
from service.dashboard.search import load_parts, load_search
from service.errors import InvalidInput, ServiceError
from service.evaluation.figure_labels import provenance, relative_to
from service.requests import SearchRequest
from service.security.identity import Identity
from service.security.scopes import Scope
from workers.queue import QueueUnavailable

SHOWN = 15
"""Number of searches on one page."""
SPARK_POINTS = 48
"""Approximate number of points in a sparkline, which is a few dozen pixels wide."""


@dataclass(frozen=True)
class BestResult:
    """Best result of a search on one device.

    `best` is the objective of its best elite, by which the archive ranks: the lower bound of its speedup. `low` and
    `high` are the bounds of that speedup.
    """

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
    """A search in the list. `spent` are its LLM calls and their cost; None if it uses no LLM."""

    search: SearchRecord
    counts: SearchCounts
    finds: tuple[BestResult, ...]
    spent: BudgetRecord | None = None

    @property
    def done(self) -> float:
        """Share of the maximum number of evaluations that is used up, 0 to 1."""
        return min(self.counts.candidates / self.search.evaluations, 1.0)


@dataclass(frozen=True)
class PoolStatus(Fragment):
    """Numbers of workers, waiting jobs and running searches."""

    template = "parts/pool.html"
    name = "pool"

    workers: int
    busy: int
    jobs: int
    running: int


@dataclass(frozen=True)
class SearchList(Fragment):
    """The list of searches, newest first; `older` is the address of the next page."""

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

    pool: PoolStatus
    searches: SearchList
    form: NewSearchForm
    before: str | None = None

    @property
    def title(self) -> str:
        """Title of the page."""
        return "Searches"

    @property
    def stream(self) -> str:
        """Address of the live updates."""
        return "/live" + (f"?before={self.before}" if self.before else "")


async def load_overview_parts(running: Coordinator, before: str | None) -> tuple[PoolStatus, SearchList]:
    """Load the live parts of the first page."""
    found = await running.store.listings.searches(after=(before,) if before else None, limit=SHOWN)
    shown = found.items
    entries = await asyncio.gather(*(_entry(running, search) for search in shown))
    workers, depth = await running.workers(), await running.queue_depth()
    active = (SearchState.RUNNING, SearchState.PREPARING)
    pool = PoolStatus(
        workers=len(workers),
        busy=sum(worker.busy is not None for worker in workers),
        jobs=sum(depth.values()),
        running=sum(search.state in active for search in shown),
    )
    older = f"/?before={shown[-1].id}" if found.after else None
    return pool, SearchList(tuple(entries), older, before is None)


async def _entry(running: Coordinator, search: SearchRecord) -> SearchRow:
    counts = await running.store.candidates.count(search.id)
    finds = tuple([await _find(running, search, device, counts) for device in search.devices])
    budgets = await running.store.spending.of_search(search.id) if search.llm is not None else []
    return SearchRow(search, counts, finds, budgets[0] if budgets else None)


async def _find(running: Coordinator, search: SearchRecord, device: str, counts: SearchCounts) -> BestResult:
    store = running.store
    progress = await store.elites.progress(search.id, device, Grid(search.axes).cells)
    best = await store.elites.best(search.id, device)
    spacing = spacing_for(counts.evaluated, SPARK_POINTS)
    milestones = await store.views.milestones(search.id, device, spacing=spacing) if best else []
    return BestResult(
        device=device,
        provenance=provenance(device),
        relative_to=relative_to(device, search),
        best=best.objective if best else None,
        low=best.low if best else None,
        high=best.high if best else None,
        coverage=progress.coverage,
        spark=_spark(milestones, progress),
    )


def _spark(milestones: Sequence[Milestone], now: ProgressRecord) -> ProgressLine:
    """Draw coverage over evaluations as a sparkline."""
    points = [(0.0, 0.0), *((float(each.evaluations), each.elites / now.cells) for each in milestones)]
    present = (float(now.evaluated), now.coverage)
    return progress_line("Coverage", [*points, present] if now.elites else [], share, evaluations)


router = pages()

Before = Annotated[str | None, Query(pattern=f"^{ID.pattern}$")]


@router.get("/", dependencies=[needs(Scope.READ)])
async def overview(running: Running, frame: Framed, before: Before = None, origin: Before = None) -> Response:
    """Show all searches, newest first, and the form for a new one, filled in from the search `origin` if given."""
    filled = None
    if origin is not None:
        filled = filled_in(await request_of(running, await running.store.searches.get(origin)), origin)
    return respond(await _overview(running, await _form(running, filled), before), frame)


@router.post("/searches", dependencies=[needs(Scope.SUBMIT)])
async def start(running: Running, frame: Framed, sent: Sent, caller: Caller, request: Request) -> Response:
    """Start a search and redirect to it, or show the form again with its errors. To admit an operator needs `admin`.

    A pasted problem takes a minute to import, so its page shows the steps first.
    """
    if sent.text("admit"):
        await RequireScope(Scope.ADMIN)(request, caller)
    if has_problem(sent):
        return await _start_from_problem(running, frame, sent, caller)
    try:
        search = await running.submit(read_request(sent, await _origin(running, sent)), owner=caller.token or "")
    except (InvalidInput, ValidationError) as error:
        form = await _form(running, sent, error)
        return respond(await _overview(running, form, None), frame, 422)
    return see_other(f"/searches/{search.id}")


async def _start_from_problem(
    running: Coordinator, frame: PageFrame, sent: SubmittedForm, caller: Identity
) -> Response:
    """Import a pasted problem and start its search, on a page that shows the steps."""
    try:
        name = problem_name(sent)
        read_request(SubmittedForm({**sent.fields, "spec": ["{}"]}))
    except (InvalidInput, ValidationError) as error:
        return respond(await _overview(running, await _form(running, sent, error), None), frame, 422)

    async def work(tell: Callable[[str], None]) -> str:
        try:
            spec = await convert_problem(sent, tell)
            tell("Starting the search")
            request = read_request(spec, await _origin(running, sent))
            return f"/searches/{(await running.submit(request, owner=caller.token or '')).id}"
        except (InvalidInput, ValidationError) as error:
            return render_fragment(await _form(running, sent, error), frame)
        except (ServiceError, ArchiveError, QueueUnavailable) as error:
            return render_fragment(await _form(running, sent, InvalidInput(str(error), "spec")), frame)

    return respond_step_by_step(name, frame, work)


@router.get("/live", response_class=EventSourceResponse, dependencies=[needs(Scope.READ)])
async def overview_live(running: Running, frame: Framed, before: Before = None) -> AsyncIterator[ServerSentEvent]:
    """Send updates of the list."""
    async for update in stream(running.events, f"/ {before}", lambda: load_overview_parts(running, before), frame):
        yield update


@router.get("/searches/{id}", dependencies=[needs(Scope.READ)])
async def show(search: Named, running: Running, frame: Framed, request: Request) -> Response:
    """Show one search."""
    return respond(await load_search(running, search, MapView.of(search, request.query_params)), frame)


@router.get("/searches/{id}/live", response_class=EventSourceResponse, dependencies=[needs(Scope.READ)])
async def search_live(
    search: Named, running: Running, frame: Framed, request: Request
) -> AsyncIterator[ServerSentEvent]:
    """Send updates of one search, in the page's view."""
    view = MapView.of(search, request.query_params)

    async def load() -> Iterable[Fragment]:
        return await load_parts(running, await running.store.searches.get(search.id), view)

    async for update in stream(running.events, search.id + view.address(), load, frame, search.id):
        yield update


async def _overview(running: Coordinator, form: NewSearchForm, before: str | None) -> Overview:
    pool, searches = await load_overview_parts(running, before)
    return Overview(pool, searches, form, before)


async def _origin(running: Coordinator, sent: SubmittedForm) -> SearchRequest | None:
    """Read the request of the search that a form was filled in from; None if there is none."""
    id = sent.text("origin")
    if not ID.fullmatch(id):
        return None
    return await request_of(running, await running.store.searches.get(id))


async def _form(
    running: Coordinator, sent: SubmittedForm | None = None, error: InvalidInput | ValidationError | None = None
) -> NewSearchForm:
    served = [worker.device for worker in await running.workers() if worker.device]
    unverified = await running.capabilities.unverified(served)
    return start_form(running.operators(), served, sent, wrong_fields(error) if error else None, unverified)
