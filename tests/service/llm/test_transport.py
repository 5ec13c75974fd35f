"""Calls over HTTP: which addresses are called, and how a wait is read. What failures mean is in `test_contract`."""

import asyncio
import socket
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest

from service.llm import LlmPrompt, PermanentFailure, TransientFailure
from service.llm.options import BackendContext, HttpOptions, PriceOptions
from service.llm.transport import VendorClient, completion_of, retry_after
from tests.service.llm.vendors import Vendor, reply


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


@pytest.mark.parametrize(
    "said, wait_s", [("", None), ("12", 12.0), ("0", 0.0), ("1e9", None), ("Wed, 21 Oct 2015 07:28:00 GMT", 0.0)]
)
def test_a_wait_as_vendors_state_it(said: str, wait_s: float | None) -> None:
    assert retry_after({"retry-after": said}) == wait_s


def test_a_wait_until_a_date_is_bounded() -> None:
    until = datetime.now(UTC) + timedelta(days=400)
    assert retry_after({"retry-after": format_datetime(until, usegmt=True)}) == 3600.0
    assert retry_after({"retry-after": until.strftime("%a, %d %b %Y %H:%M:%S -0000")}) == 3600.0


def test_a_completion_has_its_price() -> None:
    price = PriceOptions(input_usd_per_mtok=2.0, output_usd_per_mtok=4.0)
    made = completion_of(
        LlmPrompt("s", "u"),
        BackendContext(None, price=price),
        text="t\ud800",
        model="m",
        tokens=(10, 20),
        truncated=False,  # type: ignore[arg-type]
    )
    assert (made.text, made.cost_usd) == ("t?", pytest.approx(100 / 1e6))
