"""Searches: submit, list, show, pause, resume, stop."""

from collections.abc import Sequence
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response, status

from archive import records
from kernelreef import models
from service.api import builders
from service.api.dependencies import Caller, Id, Named, NewId, Running, needs
from service.api.paging import Cursor, Limit, Page, decode_id, page
from service.api.problems import PROBLEMS
from service.requests import SearchRequest
from service.security.scopes import Scope

router = APIRouter(prefix="/searches", tags=["searches"], responses=PROBLEMS)

NAME = r"^[a-z][a-z0-9_]{0,63}$"
"""Pattern of operators' names."""
SHOW = "search"
"""Name of the route that shows one search."""


@router.post("", status_code=status.HTTP_202_ACCEPTED, dependencies=[needs(Scope.SUBMIT)])
async def submit(
    body: SearchRequest, request: Request, response: Response, running: Running, id: NewId, caller: Caller
) -> models.Search:
    """Start a search, which runs on after this response. Its address is in `Location`."""
    search = await running.submit(body, id, owner=caller.token or "")
    response.headers["Location"] = request.app.url_path_for(SHOW, id=search.id)
    return builders.search_of(search)


@router.get("", dependencies=[needs(Scope.READ)])
async def find(
    running: Running,
    state: Annotated[Sequence[records.SearchState], Query(description="Only searches in these states.")] = (),
    operator: Annotated[str | None, Query(pattern=NAME, description="Only for operators of this name.")] = None,
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.Search]:
    """List searches, newest first."""
    found = await running.store.searches.list(
        limit=limit + 1, before=decode_id(cursor), states=state, operator=operator
    )
    results = await running.store.views.results([search.id for search in found])
    return page(found, limit, lambda search: (search.id,), lambda each: builders.search_of(each, results.get(each.id)))


@router.get("/{id}", name=SHOW, dependencies=[needs(Scope.READ)])
async def show(search: Named) -> models.Search:
    """Return one search."""
    return builders.search_of(search)


@router.post("/{id}/pause", dependencies=[needs(Scope.STEER)])
async def pause(id: Id, running: Running) -> models.Search:
    """Pause a search; jobs in flight still count."""
    return builders.search_of(await running.pause(id))


@router.post("/{id}/resume", dependencies=[needs(Scope.STEER)])
async def resume(id: Id, running: Running) -> models.Search:
    """Resume a paused search."""
    return builders.search_of(await running.resume(id))


@router.post("/{id}/stop", dependencies=[needs(Scope.STEER)])
async def stop(id: Id, running: Running) -> models.Search:
    """End a search for good; its results stay."""
    return builders.search_of(await running.stop(id))
