"""Searches: submit, list, show, pause, resume, stop."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status

from archive import records
from service.api import schemas
from service.api.paging import Cursor, Limit, Page, decode_id, page
from service.api.problems import PROBLEMS
from service.api.wiring import Id, Named, Running
from service.requests import SearchRequest

router = APIRouter(prefix="/searches", tags=["searches"], responses=PROBLEMS)

SHOW = "search"
"""Name of the route that shows one search."""


@router.post("", status_code=status.HTTP_202_ACCEPTED)
async def submit(body: SearchRequest, request: Request, response: Response, running: Running) -> schemas.Search:
    """Start a search; it runs on after this answer. Its address is in `Location`."""
    search = await running.submit(body)
    response.headers["Location"] = request.app.url_path_for(SHOW, id=search.id)
    return schemas.Search.of(search)


@router.get("")
async def find(
    running: Running,
    state: Annotated[Sequence[records.SearchState], Query(description="Only searches in these states.")] = (),
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[schemas.Search]:
    """Searches, newest first."""
    found = await running.store.searches.list(limit=limit + 1, before=decode_id(cursor), states=state)
    return page(found, limit, lambda search: (search.id,), schemas.Search.of)


@router.get("/{id}", name=SHOW)
async def show(search: Named) -> schemas.Search:
    """One search."""
    return schemas.Search.of(search)


@router.post("/{id}/pause")
async def pause(id: Id, running: Running) -> schemas.Search:
    """Propose nothing more; what is in flight still counts."""
    return schemas.Search.of(await running.pause(id))


@router.post("/{id}/resume")
async def resume(id: Id, running: Running) -> schemas.Search:
    """Let a paused search go on."""
    return schemas.Search.of(await running.resume(id))


@router.post("/{id}/stop")
async def stop(id: Id, running: Running) -> schemas.Search:
    """End a search for good; what it found stays."""
    return schemas.Search.of(await running.stop(id))
