"""Actions of the forms on a search's page, such as pause, extend, delete, labels, pins and hints."""

import re
from collections.abc import Awaitable, Callable, Mapping

from fastapi import Request, Response
from pydantic import ValidationError

from archive.records import SearchRecord
from kernelreef.validation import invalid
from service.api.dependencies import Caller, Id, Named, RequireScope, Running, WholeId, needs
from service.coordinator import Coordinator
from service.dashboard.clones import request_of
from service.dashboard.routing import Sent, SubmittedForm, pages, see_other
from service.errors import InvalidInput, NotFound
from service.requests import HintRequest, PinRequest, SearchChange
from service.scheduler import changes
from service.security.scopes import Scope

router = pages()

Action = Callable[[Coordinator, str], Awaitable[SearchRecord]]
ACTIONS: Mapping[str, Action] = {
    "pause": Coordinator.pause,
    "resume": Coordinator.resume,
    "stop": Coordinator.stop,
}
"""Actions of the buttons, by the last part of their address."""


@router.post("/searches/{id}/evaluations", dependencies=[needs(Scope.STEER)])
async def evaluations(search: Named, running: Running, sent: Sent) -> Response:
    """Change the maximum number of evaluations."""
    await _change_evaluations(running, search, sent)
    return _back(search.id)


@router.post("/searches/{id}/extend", dependencies=[needs(Scope.STEER)])
async def extend(search: Named, running: Running, sent: Sent) -> Response:
    """Give a done search more evaluations, and continue it."""
    await _change_evaluations(running, search, sent)
    return _back((await running.resume(search.id)).id)


async def _change_evaluations(running: Coordinator, search: SearchRecord, sent: SubmittedForm) -> None:
    try:
        change = SearchChange(evaluations=sent.number("evaluations"))
    except ValidationError as error:
        raise InvalidInput(invalid(error, SearchChange).detail, "evaluations") from error
    await changes.change(running.store, running.events, search, change)


@router.post("/searches/{id}/pins", dependencies=[needs(Scope.STEER)])
async def pin(search: Named, running: Running, caller: Caller, sent: Sent) -> Response:
    """Prefer a cell's elite, or a candidate, as a parent."""
    cell, candidate = sent.text("cell"), sent.text("candidate")
    try:
        asked = PinRequest(
            device=sent.text("device") or None,
            cell=sent.number("cell") if cell else None,
            candidate=candidate or None,
        )
    except ValidationError as error:
        raise InvalidInput(invalid(error, PinRequest).detail, "pin") from error
    await changes.pin(running.store, search, asked, caller.name)
    return _back(search.id)


@router.post("/searches/{id}/pins/{pin}/remove", dependencies=[needs(Scope.STEER)])
async def unpin(search: Named, pin: WholeId, running: Running) -> Response:
    """Remove a pin."""
    await running.store.pins.remove(search.id, pin)
    return _back(search.id)


@router.post("/searches/{id}/hints", dependencies=[needs(Scope.STEER)])
async def hint(search: Named, running: Running, caller: Caller, sent: Sent) -> Response:
    """Give the language models that write candidates a hint."""
    try:
        asked = HintRequest(text=sent.whole("text"))
    except ValidationError as error:
        raise InvalidInput(invalid(error, HintRequest).detail, "text") from error
    await changes.hint(running.store, search, asked, caller.name)
    return _back(search.id)


@router.post("/searches/{id}/hints/{hint}/remove", dependencies=[needs(Scope.STEER)])
async def forget(search: Named, hint: WholeId, running: Running) -> Response:
    """Remove a hint."""
    await running.store.hints.remove(search.id, hint)
    return _back(search.id)


@router.post("/searches/{id}/again", dependencies=[needs(Scope.SUBMIT)])
async def again(search: Named, running: Running, caller: Caller, sent: Sent, request: Request) -> Response:
    """Start an equal search; to admit an operator that mutation testing fails needs scope `admin`."""
    equal = await request_of(running, search)
    if sent.text("admit") or equal.admit:
        await RequireScope(Scope.ADMIN)(request, caller)
        equal = equal.model_copy(update={"admit": True})
    return _back((await running.submit(equal, owner=caller.token or "")).id)


@router.post("/searches/{id}/labels", dependencies=[needs(Scope.STEER)])
async def labels(search: Named, running: Running, sent: Sent) -> Response:
    """Change the search's name, tags and notes."""
    try:
        change = SearchChange(
            name=sent.text("name"),
            tags=tuple(tag for tag in re.split(r"[,\s]+", sent.text("tags")) if tag),
            notes=sent.whole("notes"),
        )
    except ValidationError as error:
        found = error.errors()[0]
        raise InvalidInput(found["msg"], str(found["loc"][0])) from error
    await changes.change(running.store, running.events, search, change)
    return _back(search.id)


@router.post("/searches/{id}/delete", dependencies=[needs(Scope.ADMIN)])
async def delete(id: Id, running: Running) -> Response:
    """Delete an ended search with its results."""
    await running.store.retention.delete(id)
    return see_other("/")


# Registered last, because its address would match the others' as well.
@router.post("/searches/{id}/{action}", dependencies=[needs(Scope.STEER)])
async def act(id: Id, action: str, running: Running) -> Response:
    """Pause, resume or stop a search."""
    if action not in ACTIONS:
        raise NotFound(f"there is no action '{action}'")
    return _back((await ACTIONS[action](running, id)).id)


def _back(search: str) -> Response:
    return see_other(f"/searches/{search}")
