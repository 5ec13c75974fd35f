"""The OpenAPI document says how callers say who they are, and which scope each route needs."""

from typing import Any

from service.api.openapi import SCHEMES, RouteRequirements, stated
from service.app import create_app
from service.security.scopes import Scope
from service.settings import Settings

APP = create_app(Settings())
DOCUMENT: dict[str, Any] = APP.openapi()


def test_both_ways_to_say_who_one_is_are_described() -> None:
    assert DOCUMENT["components"]["securitySchemes"] == SCHEMES
    assert SCHEMES["token"]["scheme"] == "bearer"
    assert SCHEMES["session"]["name"].startswith("__Host-")


def test_every_operation_says_what_it_needs() -> None:
    operations = {
        (path, method): operation["security"]
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
    }
    assert operations["/api/v1/tokens", "post"] == [{"token": ["admin"]}, {"session": ["admin"]}]
    assert operations["/api/v1/searches", "get"] == [{"token": ["read"]}, {"session": ["read"]}]
    assert operations["/logout", "post"] == [{"token": []}, {"session": []}]
    assert operations["/login", "post"] == operations["/healthz", "get"] == []


def test_what_routes_state_is_read_from_routers_and_routes_alike() -> None:
    routes = list(stated(APP.routes))
    assert RouteRequirements("DELETE", "/api/v1/tokens/{id}", Scope.ADMIN) in routes
    assert RouteRequirements("POST", "/api/v1/searches", Scope.SUBMIT) in routes
    assert RouteRequirements("POST", "/login", None) in routes


def test_bodies_have_examples() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    assert schemas["TokenRequest"]["examples"][0]["scopes"] == ["read", "submit"]
    assert schemas["SearchRequest"]["examples"]


def test_the_document_is_made_once() -> None:
    assert APP.openapi() is DOCUMENT
