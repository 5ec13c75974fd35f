"""Dependencies of routes: the coordinator, the caller, validated ids, known parameters and required scopes."""

import contextlib
import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request, params
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from uuid6 import uuid7

from archive.errors import ArchiveError
from archive.records import SearchRecord
from archive.store.ids import ID_LENGTH, Kind
from kernelreef.short_ids import SHORT_LENGTH
from service.api import VERSION_PREFIX
from service.api.paging import ID
from service.coordinator import Coordinator
from service.errors import Forbidden, NotFound, ServiceError, Unauthenticated
from service.operators.naming import find_operator
from service.security.identity import Identity
from service.security.scopes import Scope, SearchGrant

GivenId = Annotated[str, Path(max_length=64, description="Id, a UUIDv7; or its last 6 characters or more.")]
WholeId = Annotated[str, Path(pattern=f"^{ID.pattern}$", description="A UUIDv7.")]
SHORT = rf"^[0-9a-f-]{{{SHORT_LENGTH},{ID_LENGTH}}}$"
"""Pattern of a short id: the end of a UUID, as pages and tables show it."""
KINDS: Mapping[str, Kind] = {
    "searches": "search",
    "candidates": "candidate",
    "prompts": "prompt",
    "tokens": "token",
    "workers": "worker",
}
"""Kind of the resource that an id names, by the part of the path before it."""


async def coordinator_of(request: Request) -> Coordinator:
    """Return the running coordinator, which the app's lifespan sets."""
    running: Coordinator = request.app.state.coordinator
    return running


Running = Annotated[Coordinator, Depends(coordinator_of)]


async def id_of(id: GivenId, running: Running, request: Request) -> str:
    """Return the whole id of the resource that a path names.

    Raises:
        NotFound: If it is no id, whole or short.
        RecordNotFound: If a short id fits no resource.
        AmbiguousId: If it fits several.
    """
    steps = request.scope["path"].split("/")
    kind = KINDS[steps[steps.index(id) - 1]]
    return await whole_id(running, kind, id)


async def whole_id(running: Coordinator, kind: Kind, given: str) -> str:
    """Return the whole id of a resource that a request names.

    Raises:
        NotFound: If it is no id, whole or short.
        RecordNotFound: If a short id fits no resource.
        AmbiguousId: If it fits several.
    """
    if not (ID.fullmatch(given) if len(given) >= ID_LENGTH else re.fullmatch(SHORT, given)):
        raise NotFound(f"there is no {kind} '{given}'; give its id, or the last {SHORT_LENGTH} characters of it")
    return await running.store.ids.whole(kind, given)


Id = Annotated[str, Depends(id_of)]


async def search_of(id: Id, running: Running) -> SearchRecord:
    """Read the search that a path names.

    Raises:
        RecordNotFound: If there is no such search.
    """
    return await running.store.searches.get(id)


Named = Annotated[SearchRecord, Depends(search_of)]


async def caller_of(request: Request) -> Identity:
    """Return the caller that `auth` identified.

    Raises:
        Unauthenticated: If the request did not pass `auth`, or its address is public.
    """
    caller: Identity | None = request.scope.get("state", {}).get("caller")
    if caller is None:
        raise Unauthenticated("authentication is required")
    return caller


Caller = Annotated[Identity, Depends(caller_of)]


async def new_id(request: Request) -> str:
    """Return an id for a new resource, the same if a request with an idempotency key is sent again."""
    kept: str | None = request.scope.get("state", {}).get("resource")
    return kept or str(uuid7())


NewId = Annotated[str, Depends(new_id)]


@dataclass(frozen=True)
class RequireScope:
    """Dependency that requires a scope. The OpenAPI document and tests read `scope` from it."""

    scope: Scope

    async def __call__(self, request: Request, caller: Caller) -> None:
        """Check a caller; a refusal is kept for the audit log.

        Raises:
            Forbidden: If the caller lacks the scope.
        """
        detail = ""
        if self.scope not in caller.scopes:
            detail = f"this needs the scope '{self.scope.value}', which the token '{caller.name}' does not have"
        elif caller.grant is not None and not await is_within(caller.grant, request):
            detail = f"the token '{caller.name}' is for the search {caller.grant.search} only"
        if detail:
            request.state.refusal = detail
            raise Forbidden(detail)


async def is_within(grant: SearchGrant, request: Request) -> bool:
    """Return True if a request is about the one search of a token: about it, its operator, or a part of it.

    Everything else is refused: lists of all searches, pages, and whatever a later release adds.
    """
    running: Coordinator = request.app.state.coordinator
    path: str = request.scope["path"]
    if not path.startswith(f"{VERSION_PREFIX}/"):
        return False
    kind, *rest = path.removeprefix(f"{VERSION_PREFIX}/").split("/")
    with contextlib.suppress(ServiceError, ArchiveError):
        match kind, rest:
            case "searches", [id, *_]:
                return await whole_id(running, "search", id) == grant.search
            case "candidates", [id, *_]:
                candidate = await running.store.candidates.get(await whole_id(running, "candidate", id))
                return candidate.search == grant.search
            case "prompts", [id, *_]:
                exchange = await running.store.exchanges.get(await whole_id(running, "prompt", id))
                return exchange.search == grant.search
            case "prompts", []:
                named = request.query_params.getlist("search")
                return len(named) == 1 and await whole_id(running, "search", named[0]) == grant.search
            case "operators", [name]:
                operator = await find_operator(running.store, running.operators(), name)
                return operator.digest == (await running.store.searches.get(grant.search)).operator
    return False


def needs(scope: Scope) -> params.Depends:
    """Require a scope for a route: `dependencies=[needs(Scope.READ)]`."""
    return params.Depends(RequireScope(scope))


async def require_known_parameters(request: Request) -> None:
    """Refuse query parameters that a route does not have: a misspelt filter would be ignored without a word.

    Raises:
        RequestValidationError: If there are such parameters; it names the most similar one that the route has.
    """
    known = sorted(_query_parameters(request.scope["route"].dependant))
    unknown = [name for name in dict.fromkeys(request.query_params) if name not in known]
    if unknown:
        told = ((name, _unknown(name, known)) for name in unknown)
        raise RequestValidationError(
            [{"type": "unknown_parameter", "loc": ("query", name), "msg": said} for name, said in told]
        )


def _query_parameters(dependant: Dependant) -> Iterator[str]:
    """Yield the names of a route's query parameters, those of its dependencies included."""
    for field in dependant.query_params:
        yield field.alias
    for each in dependant.dependencies:
        yield from _query_parameters(each)


def _unknown(name: str, known: list[str]) -> str:
    if not known:
        return "this address takes no parameters"
    similar = difflib.get_close_matches(name, known, n=1)
    help = f"did you mean '{similar[0]}'?" if similar else f"this address takes {', '.join(known)}"
    return f"there is no such parameter; {help}"
