"""The OpenAPI document says how callers say who they are, and which scope each route needs."""

import re
from typing import Any

from openapi_spec_validator import OpenAPIV31SpecValidator

from service.api.openapi import SCHEMES, RouteRequirements, stated
from service.app import create_app
from service.security.scopes import Scope
from service.settings import Settings
from tests.service.api.test_examples import resolved

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


def test_the_document_is_valid() -> None:
    assert DOCUMENT["openapi"].startswith("3.1.")
    assert [error.message for error in OpenAPIV31SpecValidator(DOCUMENT).iter_errors()] == []


def test_a_document_of_another_version_would_be_found() -> None:
    events = DOCUMENT["paths"]["/api/v1/searches/{id}/events"]["get"]
    content = {"text/event-stream": {"itemSchema": {"type": "object"}}}
    newer = {**events, "responses": {"200": {"description": "", "content": content}}}
    document = {**DOCUMENT, "paths": {"/events/{id}": {"get": newer}}}
    assert any("itemSchema" in error.message for error in OpenAPIV31SpecValidator(document).iter_errors())


def test_schemas_are_named_by_their_classes() -> None:
    # FastAPI names a class by its module as well, such as service__api__Worker, if another one has its name.
    names = DOCUMENT["components"]["schemas"]
    assert [name for name in names if not re.fullmatch(r"[A-Z][A-Za-z]+(_[A-Z][A-Za-z]+_)?", name)] == []


def test_every_answer_has_a_body_that_is_described() -> None:
    lacking = []
    for path, item in DOCUMENT["paths"].items():
        for method, operation in item.items():
            assert {"4XX", "5XX"} <= operation["responses"].keys(), path
            for status, answer in operation["responses"].items():
                empty = status in ("204", "304")
                schemas = [content.get("schema") for content in answer.get("content", {}).values()]
                if not empty and (not schemas or not all(schemas)):
                    lacking.append(f"{method} {path} {status}")
    assert lacking == []


def test_every_list_is_a_page() -> None:
    for path, item in DOCUMENT["paths"].items():
        if "get" not in item:
            continue
        schema = item["get"]["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
        assert schema.get("type") != "array", path
        fields = resolved(DOCUMENT, schema).get("properties", {})
        parameters = {each["name"] for each in item["get"].get("parameters", ())}
        assert ("items" in fields) == ("next" in fields) == ({"cursor", "limit"} <= parameters), path


def test_operations_have_short_names_of_their_own() -> None:
    names = [operation["operationId"] for item in DOCUMENT["paths"].values() for operation in item.values()]
    assert len(set(names)) == len(names)
    assert {"searches_submit", "archives_download", "access_log_in"} <= set(names)


def test_former_names_of_fields_are_not_sent_by_default() -> None:
    fields = DOCUMENT["components"]["schemas"]["SearchRequest"]["properties"]
    assert fields["evaluations"]["default"] == 200
    assert fields["budget"]["deprecated"] and "default" not in fields["budget"]
