"""Dependencies of routes: the coordinator, the caller, validated ids, known parameters and required scopes."""

import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import Depends, Path, Request, params
from fastapi.dependencies.models import Dependant
from fastapi.exceptions import RequestValidationError
from uuid6 import uuid7

from archive.records import SearchRecord
from service.api.paging import ID
from service.coordinator import Coordinator
from service.errors import Forbidden, Unauthenticated
from service.security.identity import Identity
from service.security.scopes import Scope

Id = Annotated[str, Path(pattern=f"^{ID.pattern}$", description="A UUIDv7.")]


async def coordinator_of(request: Request) -> Coordinator:
    """Return the running coordinator, which the app's lifespan sets."""
    running: Coordinator = request.app.state.coordinator
    return running


Running = Annotated[Coordinator, Depends(coordinator_of)]


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
        if self.scope not in caller.scopes:
            detail = f"this needs the scope '{self.scope.value}', which the token '{caller.name}' does not have"
            request.state.refusal = detail
            raise Forbidden(detail)


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
        raise RequestValidationError([{"loc": ("query", name), "msg": _unknown(name, known)} for name in unknown])


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
