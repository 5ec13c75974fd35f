"""Changes to a search: evaluations, priority, stop rules, pins that selection prefers, and hints for LLMs."""

from fastapi import APIRouter, status

from kernelreef import models
from service.api import builders
from service.api.dependencies import Caller, Named, NewId, Running, WholeId, needs
from service.api.paging import Cursor, Limit, Page, whole
from service.api.problems import PROBLEMS
from service.requests import HintRequest, PinRequest, SearchChange
from service.scheduler import changes
from service.security.scopes import Scope

router = APIRouter(prefix="/searches/{id}", tags=["steering"], responses=PROBLEMS)


@router.patch("", dependencies=[needs(Scope.STEER)])
async def change(body: SearchChange, search: Named, running: Running) -> models.Search:
    """Change evaluations, priority or stop rules of an open or done search; name, tags and notes of any search."""
    return builders.search_of(await changes.change(running.store, running.events, search, body))


@router.get("/pins", dependencies=[needs(Scope.READ)])
async def pins(search: Named, running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[models.Pin]:
    """List the pins, oldest first."""
    return whole(await running.store.pins.list(search.id), cursor, limit, lambda pin: pin.id, models.Pin.model_validate)


@router.post("/pins", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.STEER)])
async def pin(body: PinRequest, search: Named, running: Running, caller: Caller) -> models.Pin:
    """Prefer a cell's elite, or a candidate, as a parent: half of all picks go to pins."""
    return models.Pin.model_validate(await changes.pin(running.store, search, body, caller.name))


@router.delete("/pins/{pin}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[needs(Scope.STEER)])
async def unpin(search: Named, pin: WholeId, running: Running) -> None:
    """Remove a pin."""
    await running.store.pins.remove(search.id, pin)


@router.get("/hints", dependencies=[needs(Scope.READ)])
async def hints(search: Named, running: Running, cursor: Cursor = None, limit: Limit = 50) -> Page[models.Hint]:
    """List the hints for the LLMs that write candidates, oldest first."""
    return whole(
        await running.store.hints.list(search.id), cursor, limit, lambda hint: hint.id, models.Hint.model_validate
    )


@router.post("/hints", status_code=status.HTTP_201_CREATED, dependencies=[needs(Scope.STEER)])
async def hint(body: HintRequest, search: Named, running: Running, caller: Caller, new: NewId) -> models.Hint:
    """Add a hint: a person's text in the prompts of the LLMs that write candidates."""
    return models.Hint.model_validate(await changes.hint(running.store, search, body, caller.name, new))


@router.delete("/hints/{hint}", status_code=status.HTTP_204_NO_CONTENT, dependencies=[needs(Scope.STEER)])
async def forget(search: Named, hint: WholeId, running: Running) -> None:
    """Remove a hint."""
    await running.store.hints.remove(search.id, hint)
