"""What goes over the wire: keys that make repetitions harmless, and further attempts where they help."""

from pathlib import Path

import httpx
import pytest

from kernelreef import AsyncReef, RequestRefused, ServiceUnreachable
from service.api.examples import EXAMPLES
from service.errors import InvalidInput, NotFound, RateLimited, ServiceError, Unavailable

NOTHING = {"type": "urn:kernelreef:problem:x", "title": "X", "status": 0, "detail": "because", "errors": []}
SEARCH = "0190a000-0000-7000-8000-000000000001"


class Answering(httpx.AsyncBaseTransport):
    """A service that gives certain answers, one after the other, and the last one for ever."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[httpx.Request] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def pin() -> httpx.Response:
    return httpx.Response(201, json=EXAMPLES["Pin"])


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kernelreef.transport.WAIT_INITIAL_S", 0.001)
    monkeypatch.setattr("kernelreef.transport.WAIT_MOST_S", 0.002)
    monkeypatch.setattr("kernelreef.problems.RETRY_AFTER_S", 0)


def service(*answers: httpx.Response | Exception) -> tuple[AsyncReef, Answering]:
    transport = Answering(*answers)
    return AsyncReef("http://reef.example.org", "reef_secret", transport=transport), transport


async def test_a_post_has_one_key_for_all_its_attempts() -> None:
    reef, wire = service(httpx.ConnectError("refused"), httpx.ReadTimeout(""), httpx.Response(503, json=NOTHING), pin())
    assert (await reef.pin(SEARCH, cell=17)).cell == 17
    keys = [request.headers["idempotency-key"] for request in wire.requests]
    assert len(keys) == 4 and len(set(keys)) == 1
    reef.wire._attempts = 1
    await reef.pin(SEARCH, cell=17)
    assert wire.requests[-1].headers["idempotency-key"] not in keys
    assert {request.headers["authorization"] for request in wire.requests} == {"Bearer reef_secret"}


async def test_the_last_failure_is_raised() -> None:
    reef, wire = service(httpx.Response(503, json=NOTHING))
    with pytest.raises(Unavailable, match="because"):
        await reef.search(SEARCH)
    assert len(wire.requests) == 4
    reef, wire = service(httpx.ConnectError(""))
    with pytest.raises(ServiceUnreachable, match=r"reef\.example\.org does not answer: ConnectError"):
        await reef.search(SEARCH)


@pytest.mark.parametrize("status", [400, 404, 409, 413, 422, 500])
async def test_what_would_fail_again_is_not_tried_again(status: int) -> None:
    reef, wire = service(httpx.Response(status, json=NOTHING))
    with pytest.raises(ServiceError, match="because"):
        await reef.search(SEARCH)
    assert len(wire.requests) == 1


async def test_who_asks_to_be_left_alone_is() -> None:
    again = httpx.Response(429, json=NOTHING, headers={"Retry-After": "0"})
    reef, wire = service(again, pin())
    assert (await reef.pin(SEARCH, cell=17)).cell == 17
    reef, wire = service(httpx.Response(429, json=NOTHING, headers={"Retry-After": "3600"}))
    with pytest.raises(RateLimited) as caught:
        await reef.search(SEARCH)
    assert (caught.value.retry_after_s, len(wire.requests)) == (3600, 1)


async def test_what_is_already_gone_when_it_is_tried_again_was_taken_away() -> None:
    reef, wire = service(httpx.ReadError("broke"), httpx.Response(404, json=NOTHING))
    await reef.unpin(SEARCH, SEARCH)
    assert len(wire.requests) == 2
    reef, _ = service(httpx.Response(404, json=NOTHING))
    with pytest.raises(NotFound):
        await reef.unpin(SEARCH, SEARCH)


async def test_no_address_leads_elsewhere_than_below_the_service() -> None:
    reef, wire = service(httpx.Response(404, json=NOTHING))
    for id in ("../../healthz", "x?y=z", "a b", "%2e%2e"):
        with pytest.raises(NotFound):
            await reef.search(id)
    assert all(request.url.raw_path.startswith(b"/api/v1/searches/") for request in wire.requests)
    assert not any(request.url.query for request in wire.requests)


async def test_an_answer_that_is_none_of_ours_is_said() -> None:
    reef, _ = service(httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match=r"/api/v1/searches/.* sent an answer that this client cannot read"):
        await reef.search(SEARCH)
    reef, _ = service(httpx.Response(302, headers={"Location": "https://elsewhere.example.org"}))
    with pytest.raises(RequestRefused, match="302"):
        await reef.search(SEARCH)


async def test_query_parameters_are_as_the_service_reads_them() -> None:
    reef, wire = service(httpx.Response(200, json={"items": [], "next": None}))
    assert [one async for one in reef.searches(state=["done", "failed"])] == []
    assert [one async for one in reef.operators(catalogue=False)] == []
    assert [request.url.query for request in wire.requests] == [b"state=done&state=failed", b"catalogue=false"]


async def test_a_file_of_authorities_must_be_one(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("nothing")
    with pytest.raises(InvalidInput, match=r"ca\.pem"):
        AsyncReef("https://reef.example.org", verify=tmp_path / "ca.pem")
