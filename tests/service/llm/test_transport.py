"""Calls over HTTP: which addresses are called, through which proxies. What failures mean is in `test_contract`."""

import asyncio
import socket
from typing import Any

import pytest

from service.errors import InvalidInput
from service.llm import BackendError, PermanentFailure, TransientFailure
from service.llm.options import HttpOptions
from service.llm.transport import VendorClient
from tests.service.llm.vendors import Vendor, events, reply


def resolving(monkeypatch: pytest.MonkeyPatch, *addresses: str) -> None:
    """Have every name stand for these addresses."""

    async def getaddrinfo(self: Any, host: str, port: int, **rest: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port)) for address in addresses]

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)


def caller(url: str, **changes: Any) -> VendorClient:
    return VendorClient(HttpOptions(kind="openai", base_url=url, model="m", timeout_s=2, **changes), None, {})


@pytest.mark.parametrize("address", ["127.0.0.1", "169.254.169.254", "10.0.0.1", "::1", "::ffff:127.0.0.1", "0.0.0.0"])
async def test_a_public_name_never_leads_inside(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    resolving(monkeypatch, address)
    tried = caller("https://api.example.com/v1")
    with pytest.raises(PermanentFailure, match="has a private address"):
        await tried.post("/chat/completions", {}, "key")
    await tried.close()


async def test_a_name_that_may_be_private_is_called(monkeypatch: pytest.MonkeyPatch, vendor: Vendor) -> None:
    resolving(monkeypatch, "127.0.0.1")
    vendor.will(reply(body={"a": 1}))
    tried = caller(f"http://vllm:{vendor.port}/v1", private_network=True)
    assert await tried.post("/x", {"b": 2}, "") == {"a": 1}
    (request,) = vendor.requests
    assert (request.path, request.body) == ("/v1/x", {"b": 2})
    assert request.headers["host"] == f"vllm:{vendor.port}"
    assert "idempotency-key" not in request.headers
    await tried.close()


async def test_a_name_that_nobody_knows_costs_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def getaddrinfo(self: Any, host: str, port: int, **rest: Any) -> list[Any]:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(asyncio.base_events.BaseEventLoop, "getaddrinfo", getaddrinfo)
    tried = caller("https://api.example.com/v1")
    with pytest.raises(TransientFailure, match="could not be resolved") as caught:
        await tried.post("/x", {}, "")
    assert not caught.value.paid
    await tried.close()


async def test_no_proxy_of_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch, vendor: Vendor) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    vendor.will(reply(body={}))
    tried = caller(vendor.url)
    assert await tried.post("/x", {}, "") == {}
    await tried.close()


async def test_a_proxy_is_asked_with_the_whole_address(monkeypatch: pytest.MonkeyPatch, vendor: Vendor) -> None:
    vendor.will(reply(body={"a": 1}))
    monkeypatch.setenv("REEF_TEST_PROXY", vendor.url)
    for proxy in (vendor.url, "$REEF_TEST_PROXY"):
        tried = caller("http://gpu.lan:8000/v1", private_network=True, proxy=proxy)
        assert await tried.post("/x", {}, "") == {"a": 1}
        await tried.close()
    assert [(each.path, each.headers["host"]) for each in vendor.requests] == [
        ("http://gpu.lan:8000/v1/x", "gpu.lan:8000")
    ] * 2


async def test_headers_and_query_go_along_and_their_secrets_are_quoted_nowhere(
    monkeypatch: pytest.MonkeyPatch, vendor: Vendor
) -> None:
    monkeypatch.setenv("REEF_TEST_SECOND", "second-secret")
    vendor.will(reply(500, {"error": "no second-secret here"}))
    asked = {"headers": {"X-Title": "reef", "X-Second": "$REEF_TEST_SECOND"}, "query": {"api-version": "2024-10-21"}}
    tried = caller(vendor.url, **asked)
    with pytest.raises(BackendError) as caught:
        await tried.post("/chat/completions", {}, "")
    (request,) = vendor.requests
    assert request.path == "/chat/completions?api-version=2024-10-21"
    assert (request.headers["x-title"], request.headers["x-second"]) == ("reef", "second-secret")
    assert caught.value.detail == "status 500: no [key] here"
    await tried.close()


def test_a_variable_that_is_not_set_is_named() -> None:
    with pytest.raises(InvalidInput, match="REEF_TEST_NOTHING is empty"):
        caller("http://127.0.0.1:1", headers={"X-Second": "$REEF_TEST_NOTHING"})


@pytest.mark.parametrize(
    "base, path, asked",
    [
        ("/v1", "/chat/completions", "/v1/chat/completions"),
        ("/v1/chat/completions", "/chat/completions", "/v1/chat/completions"),
        ("", "/v1/messages", "/v1/messages"),
        ("/v1", "/v1/messages", "/v1/messages"),
        ("/v1/messages", "/v1/messages", "/v1/messages"),
    ],
)
async def test_a_base_url_may_hold_the_path(vendor: Vendor, base: str, path: str, asked: str) -> None:
    vendor.will(reply(body={}))
    tried = caller(vendor.url + base)
    await tried.post(path, {}, "")
    assert vendor.requests[0].path == asked
    await tried.close()


@pytest.mark.parametrize("kind", ["text/event-stream; charset=utf-8", "application/octet-stream"])
async def test_a_stream_is_over_with_its_last_event(vendor: Vendor, kind: str) -> None:
    vendor.will(events({"a": 1}, ("b", {"c": 2}), kind=kind, hold="event-stream" in kind))
    tried = caller(vendor.url)
    assert await tried.post("/x", {}, "") == [{"a": 1}, {"type": "b", "c": 2}]
    await tried.close()


async def test_json_of_another_type_with_broken_characters_is_read(vendor: Vendor) -> None:
    vendor.will(reply(body=b'\xef\xbb\xbf {"a": "\xff"}', kind="text/plain"))
    tried = caller(vendor.url)
    assert await tried.post("/x", {}, "") == {"a": "\ufffd"}
    await tried.close()


async def test_no_cookie_goes_back(vendor: Vendor) -> None:
    vendor.will(reply(body={}, Set_Cookie="session=1; Path=/"), reply(body={}))
    tried = caller(vendor.url)
    for _ in range(2):
        await tried.post("/x", {}, "")
    assert "cookie" not in vendor.requests[1].headers
    await tried.close()


@pytest.mark.parametrize("last", ["[DONE]", '{"type": "response.completed", "response": {"x": "' + "y" * 500 + '"}}'])
async def test_a_long_last_event_ends_a_stream_too(vendor: Vendor, last: str) -> None:
    name = "" if last == "[DONE]" else "event: response.completed\n"
    vendor.will(events({"a": 1}, end=f"{name}data: {last}\n\n", hold=True))
    tried = caller(vendor.url)
    assert isinstance(await tried.post("/x", {}, ""), list)
    await tried.close()


async def test_a_late_stream_counts_as_far_as_it_came(vendor: Vendor) -> None:
    vendor.will(events({"a": 1}, end="", hold=True))
    tried = caller(vendor.url)
    first, last = await tried.post("/x", {}, "")
    assert first == {"a": 1}
    assert last["error"]["message"] == "no complete response in 2 s"
    await tried.close()
