"""The app as a whole: who it answers to, how much it takes, what it documents, and that nothing makes it fail."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, checks

from archive.errors import Unavailable
from service.app import create_app, is_loopback, require_loopback, serve
from service.errors import BadInput
from service.settings import Settings

ROOT = Path(__file__).parent.parent.parent
CONFORMANCE = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app that has not started: enough for everything that never reaches a route."""
    transport = httpx.ASGITransport(create_app(Settings(data_dir=tmp_path)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_may_be_served_on(host: str) -> None:
    require_loopback(host)
    assert is_loopback(host)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org", "", "localhost.example.org"])
def test_without_a_login_nothing_else_is(host: str) -> None:
    with pytest.raises(BadInput, match=r"no login yet.*127\.0\.0\.1") as caught:
        require_loopback(host)
    assert caught.value.field == "host"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8700", "localhost:8700", "[::1]:8700"])
async def test_this_machine_is_answered(client: httpx.AsyncClient, host: str) -> None:
    assert (await client.get("/healthz", headers={"Host": host})).status_code == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "attacker.example:8700", "127.0.0.1.example.org", "[::", "", "0.0.0.0"]
)
async def test_other_names_are_not(client: httpx.AsyncClient, host: str) -> None:
    answer = await client.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()["title"]) == (421, "Wrong host")


async def test_the_document_describes_every_error(client: httpx.AsyncClient) -> None:
    document = (await client.get("/openapi.json")).json()
    assert {"Problem", "FieldProblem"} <= set(document["components"]["schemas"])
    for path, item in document["paths"].items():
        for method, operation in item.items():
            schema = operation["responses"]["4XX"]["content"]["application/problem+json"]["schema"]
            assert schema == {"$ref": "#/components/schemas/Problem"}, f"{method} {path}"
            assert "422" not in operation["responses"]
            assert operation["summary"]


async def test_nothing_is_loaded_from_elsewhere(client: httpx.AsyncClient) -> None:
    for page in ("/docs", "/redoc"):
        assert (await client.get(page)).status_code == 404


@pytest.fixture
def served(tmp_path: Path) -> Iterator[str]:
    """Address of a service in a process of its own, which ends cleanly when it is asked to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = {**os.environ, "REEF_DATA_DIR": str(tmp_path), "REEF_LOCAL_WORKERS": "0", "REEF_LOG_LEVEL": "warning"}
    code = f"import asyncio; from service.app import serve; asyncio.run(serve(Settings(), '127.0.0.1', {port}))"
    command = [sys.executable, "-c", f"from service.settings import Settings; {code}"]
    process = subprocess.Popen(command, env=environment, cwd=ROOT)
    try:
        wait_until_ready(process, f"http://127.0.0.1:{port}")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        assert process.wait(60) == 0


def wait_until_ready(process: "subprocess.Popen[bytes]", address: str) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        assert process.poll() is None, "the service ended by itself"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/readyz").status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


async def test_what_fails_at_the_start_is_raised(tmp_path: Path) -> None:
    nowhere = Settings(database_url="postgresql+psycopg://reef@127.0.0.1:1/reef", data_dir=tmp_path)
    with pytest.raises(Unavailable):
        await serve(nowhere, "127.0.0.1", 0)
    with pytest.raises(BadInput, match="no login yet"):
        await serve(nowhere, "0.0.0.0", 0)


def test_no_request_makes_it_fail(served: str) -> None:
    schema = schemathesis.openapi.from_url(f"{served}/openapi.json").exclude(path_regex="/events$")
    tried = []
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        def answers_as_documented(case: Case) -> None:
            case.call_and_validate(checks=CONFORMANCE)

        answers_as_documented()
        tried.append(operation.label)
    assert "POST /api/v1/searches" in tried
    assert httpx.get(f"{served}/readyz").status_code == 200
