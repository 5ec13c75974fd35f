"""What forms on a search's page do: pause, resume, stop, another number of evaluations, pins and hints."""

from collections.abc import Awaitable, Callable, Mapping

from fastapi import Response
from pydantic import ValidationError

from archive.records import SearchRecord
from service.api.dependencies import Caller, Id, Named, Running, needs
from service.coordinator import Coordinator
from service.dashboard.routing import Sent, pages, see_other
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
"""What a button does, by the end of its address."""


@router.post("/searches/{id}/evaluations", dependencies=[needs(Scope.STEER)])
async def evaluations(search: Named, running: Running, sent: Sent) -> Response:
    """Allow another number of evaluations."""
    try:
        change = SearchChange(evaluations=sent.number("evaluations"))
    except ValidationError as error:
        raise InvalidInput(error.errors()[0]["msg"], "evaluations") from error
    await changes.change(running.store, running.events, search, change)
    return _back(search.id)


@router.post("/searches/{id}/pins", dependencies=[needs(Scope.STEER)])
async def pin(search: Named, running: Running, caller: Caller, sent: Sent) -> Response:
    """Prefer a cell's holder, or a candidate, as a parent."""
    cell, candidate = sent.text("cell"), sent.text("candidate")
    try:
        asked = PinRequest(
            device=sent.text("device") or None,
            cell=sent.number("cell") if cell else None,
            candidate=candidate or None,
        )
    except ValidationError as error:
        raise InvalidInput(error.errors()[0]["msg"], "pin") from error
    await changes.pin(running.store, search, asked, caller.name)
    return _back(search.id)


@router.post("/searches/{id}/pins/{pin}/remove", dependencies=[needs(Scope.STEER)])
async def unpin(search: Named, pin: Id, running: Running) -> Response:
    """Take a pin away."""
    await running.store.pins.remove(search.id, pin)
    return _back(search.id)


@router.post("/searches/{id}/hints", dependencies=[needs(Scope.STEER)])
async def hint(search: Named, running: Running, caller: Caller, sent: Sent) -> Response:
    """Tell the models that write candidates something."""
    try:
        asked = HintRequest(text=sent.whole("text"))
    except ValidationError as error:
        raise InvalidInput(error.errors()[0]["msg"], "text") from error
    await changes.hint(running.store, search, asked, caller.name)
    return _back(search.id)


@router.post("/searches/{id}/hints/{hint}/remove", dependencies=[needs(Scope.STEER)])
async def forget(search: Named, hint: Id, running: Running) -> Response:
    """Take a hint away."""
    await running.store.hints.remove(search.id, hint)
    return _back(search.id)


# Last, because this address would take the others' as well.
@router.post("/searches/{id}/{action}", dependencies=[needs(Scope.STEER)])
async def act(id: Id, action: str, running: Running) -> Response:
    """Pause, resume or stop."""
    if action not in ACTIONS:
        raise NotFound(f"there is no action '{action}'")
    return _back((await ACTIONS[action](running, id)).id)


def _back(search: str) -> Response:
    return see_other(f"/searches/{search}")
