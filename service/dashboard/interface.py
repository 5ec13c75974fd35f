"""The page of the REST interface: every route with its fields, and a form that sends a request.

It is made from the OpenAPI document and needs nothing from other hosts.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import Request, Response

from service.api.dependencies import needs
from service.dashboard.rendering import HtmlPage, respond
from service.dashboard.routing import Framed, pages
from service.security.scopes import Scope

router = pages()

STREAMED = ("text/event-stream", "application/zip", "application/x-ndjson")
"""Media types of answers that the page does not show: they are long, or never end."""
Document = Mapping[str, Any]


@dataclass(frozen=True)
class DocumentedField:
    """A parameter or a field of a body: its place, type and default in words."""

    name: str
    place: str
    kind: str
    required: bool
    description: str = ""


@dataclass(frozen=True)
class DocumentedRoute:
    """A route. `example` is a body to begin with, None if it takes none; `sent` is False for streams."""

    id: str
    method: str
    path: str
    description: str
    scope: str
    fields: tuple[DocumentedField, ...]
    example: str | None
    answers: tuple[tuple[str, str], ...]
    sent: bool

    @property
    def parameters(self) -> tuple[DocumentedField, ...]:
        """Fields of the address."""
        return tuple(field for field in self.fields if field.place in ("path", "query"))


@dataclass(frozen=True)
class InterfacePage(HtmlPage):
    """All routes by subject."""

    template = "interface.html"
    section = "/docs"
    heading = "REST interface"

    version: str
    groups: tuple[tuple[str, tuple[DocumentedRoute, ...]], ...]


@router.get("/docs", dependencies=[needs(Scope.READ)])
async def show(request: Request, frame: Framed) -> Response:
    """Show the documentation of the interface."""
    document: Document = request.app.openapi()
    groups: dict[str, list[DocumentedRoute]] = {}
    for tag, route in documented(document):
        groups.setdefault(tag, []).append(route)
    page = InterfacePage(document["info"]["version"], tuple((tag, tuple(routes)) for tag, routes in groups.items()))
    return respond(page, frame)


def documented(document: Document) -> Iterator[tuple[str, DocumentedRoute]]:
    """Yield the routes of an OpenAPI document, each with its tag."""
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield operation["tags"][0], _route(document, method.upper(), path, operation)


def _route(document: Document, method: str, path: str, operation: Document) -> DocumentedRoute:
    contents = operation.get("requestBody", {}).get("content", {}).values()
    body = next((_resolved(document, content["schema"]) for content in contents), None)
    media = [media for answer in operation["responses"].values() for media in answer.get("content", {})]
    return DocumentedRoute(
        id=operation["operationId"],
        method=method,
        path=path,
        description=operation.get("description", ""),
        scope=next((scope for each in operation["security"] for scopes in each.values() for scope in scopes), ""),
        fields=(*_parameters(operation), *(_fields(body) if body else ())),
        example=None if body is None else json.dumps(next(iter(body.get("examples", ())), {}), indent=2),
        answers=tuple((status, _answer(answer)) for status, answer in operation["responses"].items()),
        sent=not set(media) & set(STREAMED),
    )


def _parameters(operation: Document) -> Iterator[DocumentedField]:
    for each in operation.get("parameters", ()):
        schema = each["schema"]
        yield DocumentedField(
            each["name"], each["in"], kind_of(schema), each.get("required", False), each.get("description", "")
        )


def _fields(body: Document) -> Iterator[DocumentedField]:
    for name, schema in body.get("properties", {}).items():
        if not schema.get("deprecated"):
            required = name in body.get("required", ())
            yield DocumentedField(name, "body", kind_of(schema), required, schema.get("description", ""))


def _answer(answer: Document) -> str:
    """Describe an answer: its type, or what it says where it has none."""
    kinds = [
        f"{kind_of(content['schema'])} ({media})" if media != "application/json" else kind_of(content["schema"])
        for media, content in answer.get("content", {}).items()
    ]
    return ", ".join(kinds) or str(answer.get("description", ""))


def kind_of(schema: Document) -> str:
    """Describe the type of a value, such as `array of string, default []`."""
    if "$ref" in schema:
        words = str(schema["$ref"]).rpartition("/")[2]
    elif "anyOf" in schema:
        words = " or ".join(dict.fromkeys(kind_of(each) for each in schema["anyOf"]))
    elif "enum" in schema:
        words = " | ".join(map(str, schema["enum"]))
    elif schema.get("type") == "array":
        words = f"array of {kind_of(schema.get('items', {}))}"
    else:
        words = str(schema.get("type", "any"))
    return words if schema.get("default") is None else f"{words}, default {json.dumps(schema['default'])}"


def _resolved(document: Document, schema: Document) -> Document:
    """Follow a reference to a schema; of a body that may be absent, take the one that may be present."""
    schema = next((each for each in schema.get("anyOf", ()) if "$ref" in each), schema)
    name = str(schema.get("$ref", "")).rpartition("/")[2]
    found: Document = document["components"]["schemas"][name] if name else schema
    return found
