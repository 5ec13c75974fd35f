"""Additions to FastAPI's OpenAPI document: the requirements of each route, examples and problems."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute, iter_route_contexts
from starlette.routing import BaseRoute

from service.api.auth import OPEN
from service.api.dependencies import RequireScope
from service.api.examples import EXAMPLES
from service.api.problems import Problem
from service.security.cookies import PLAIN_NAME, SECURE_NAME
from service.security.scopes import Scope

SCHEMES: dict[str, Any] = {
    "token": {"type": "http", "scheme": "bearer", "description": "An API token: `reef_…`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": SECURE_NAME,
        "description": f"The cookie of a session, from `POST /login`; called `{PLAIN_NAME}` without TLS.",
    },
}
"""Ways to authenticate."""


@dataclass(frozen=True)
class RouteRequirements:
    """Requirements of a route; `scope` is None if every known caller may use it, or if it is public."""

    method: str
    path: str
    scope: Scope | None


def stated(routes: Sequence[BaseRoute]) -> Iterator[RouteRequirements]:
    """List all methods of all routes with the scope that each requires."""
    for route in iter_route_contexts(routes):
        dependant = getattr(route, "dependant", None)
        scopes = [need.scope for need in _needs(dependant)] if dependant else []
        for method in sorted(route.methods or ()):
            yield RouteRequirements(method, route.path_format or "", scopes[0] if scopes else None)


def operation_id(route: APIRoute) -> str:
    """Name a route for the document: generators of clients name functions by it, such as `searches_submit`."""
    return "_".join([*map(str, route.tags[:1]), route.name])


def describe(document: dict[str, Any], routes: Sequence[BaseRoute]) -> None:
    """Add examples, the problem schema, the ways to authenticate, and the scope that each route requires."""
    components = document["components"]
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    components["schemas"].update(problem.pop("$defs"), Problem=problem)
    for name, example in EXAMPLES.items():
        components["schemas"][name]["examples"] = [example]
    components["securitySchemes"] = SCHEMES
    for route in stated(routes):
        operation = document["paths"].get(route.path, {}).get(route.method.lower())
        if operation is not None:
            for content in operation["responses"].get("200", {}).get("content", {}).values():
                content.pop("itemSchema", None)  # A field of OpenAPI 3.2.
            scopes = [route.scope.value] if route.scope else []
            operation["security"] = [] if route.path in OPEN else [{name: scopes} for name in SCHEMES]


def _needs(dependant: Dependant) -> Iterator[RequireScope]:
    for each in dependant.dependencies:
        if isinstance(each.call, RequireScope):
            yield each.call
