"""Searches: submit, list, show, pause, resume, stop, delete."""

from collections.abc import Sequence
from typing import Annotated, Literal

from fastapi import APIRouter, Depends, Query, Request, Response, status

from archive import records
from kernelreef import models
from service.api import builders
from service.api.dependencies import Caller, Id, Named, NewId, RequireScope, Running, needs
from service.api.paging import ID, Cursor, Limit, Page, decode_sorted, listed
from service.api.problems import PROBLEMS
from service.requests import SearchRequest, SearchTag
from service.security.scopes import Scope

router = APIRouter(prefix="/searches", tags=["searches"], responses=PROBLEMS)

NAME = r"^[a-z][a-z0-9_]{0,63}$"
"""Pattern of operators' names."""
SHOW = "search"
"""Name of the route that shows one search."""


SearchSort = Literal["-created", "created", "-name", "name", "-operator", "operator", "-best", "best"]
"""Orders of the list of searches: by `SEARCH_SORTS`."""


def filter_of(
    state: Annotated[Sequence[records.SearchState], Query(description="Only searches in these states.")] = (),
    operator: Annotated[str | None, Query(pattern=NAME, description="Only for operators of this name.")] = None,
    device: Annotated[str | None, Query(max_length=64, description="Only searches on this device.")] = None,
    owner: Annotated[
        str | None,
        Query(pattern=f"^({ID.pattern})?$", description="Only searches of this token; empty: of the machine's user."),
    ] = None,
    tag: Annotated[Sequence[SearchTag], Query(description="Only searches with all of these tags.")] = (),
    text: Annotated[
        str | None,
        Query(min_length=1, max_length=100, description="Only with this text in name, notes or operator name."),
    ] = None,
) -> records.SearchFilter:
    """Read the filters of the list of searches."""
    return records.SearchFilter(tuple(state), operator, device, owner, tuple(tag), text)


@router.post("", status_code=status.HTTP_202_ACCEPTED, dependencies=[needs(Scope.SUBMIT)])
async def submit(
    body: SearchRequest, request: Request, response: Response, running: Running, id: NewId, caller: Caller
) -> models.Search:
    """Start a search, which runs on after this response. Its address is in `Location`. `admit` needs scope `admin`."""
    if body.admit:
        await RequireScope(Scope.ADMIN)(request, caller)
    search = await running.submit(body, id, owner=caller.token or "")
    response.headers["Location"] = request.app.url_path_for(SHOW, id=search.id)
    return builders.search_of(search)


@router.get("", dependencies=[needs(Scope.READ)])
async def find(
    running: Running,
    where: Annotated[records.SearchFilter, Depends(filter_of)],
    sort: Annotated[SearchSort, Query(description="Order; a minus sign reverses it.")] = "-created",
    cursor: Cursor = None,
    limit: Limit = 50,
) -> Page[models.Search]:
    """List searches, newest first unless `sort` says otherwise."""
    after = decode_sorted(cursor, sort, records.SEARCH_SORTS[sort.removeprefix("-")])
    found = await running.store.listings.searches(where, sort=sort, after=after, limit=limit)
    results = await running.store.views.results([search.id for search in found.items])
    return listed(found, sort, lambda each: builders.search_of(each, results.get(each.id)))


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
    """Resume a paused search, or a done one whose limits leave room. An active search stays as it is."""
    return builders.search_of(await running.resume(id))


@router.post("/{id}/stop", dependencies=[needs(Scope.STEER)])
async def stop(id: Id, running: Running) -> models.Search:
    """End a search for good; its results stay."""
    return builders.search_of(await running.stop(id))


@router.delete("/{id}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[needs(Scope.ADMIN)])
async def delete(id: Id, running: Running) -> None:
    """Delete an ended search with its candidates and results. Operators and bundles that others share stay."""
    await running.store.retention.delete(id)
