"""Routes of searches: the list with the form for a new search, one search, and their live updates."""

from collections.abc import AsyncIterator, Iterable
from typing import Annotated

from fastapi import Query, Request, Response
from fastapi.sse import EventSourceResponse, ServerSentEvent
from pydantic import ValidationError

from service.api.dependencies import Caller, Named, Running, needs
from service.api.paging import ID
from service.coordinator import Coordinator
from service.dashboard.live import stream
from service.dashboard.maps import MapView
from service.dashboard.new_search import NewSearchForm, read_request, start_form, without_problem, wrong_fields
from service.dashboard.overview import Overview, load_overview_parts
from service.dashboard.rendering import Fragment, respond
from service.dashboard.routing import Framed, Sent, SubmittedForm, pages, see_other
from service.dashboard.search import load_parts, load_search
from service.errors import InvalidInput
from service.security.scopes import Scope

router = pages()

Before = Annotated[str | None, Query(pattern=f"^{ID.pattern}$")]


@router.get("/", dependencies=[needs(Scope.READ)])
async def overview(running: Running, frame: Framed, before: Before = None) -> Response:
    """Show all searches, newest first, and the form for a new one."""
    return respond(await _overview(running, await _form(running), before), frame)


@router.post("/searches", dependencies=[needs(Scope.SUBMIT)])
async def start(running: Running, frame: Framed, sent: Sent, caller: Caller) -> Response:
    """Start a search and redirect to it, or show the form again with its errors."""
    try:
        search = await running.submit(read_request(await without_problem(sent)), owner=caller.token or "")
    except (InvalidInput, ValidationError) as error:
        form = await _form(running, sent, error)
        return respond(await _overview(running, form, None), frame, 422)
    return see_other(f"/searches/{search.id}")


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
    pulse, searches = await load_overview_parts(running, before)
    return Overview(pulse, searches, form, before)


async def _form(
    running: Coordinator, sent: SubmittedForm | None = None, error: InvalidInput | ValidationError | None = None
) -> NewSearchForm:
    served = [worker.device for worker in await running.workers() if worker.device]
    return start_form(running.operators(), served, sent, wrong_fields(error) if error else None)
