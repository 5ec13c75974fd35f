"""The app as a whole: who may do what on every route, what it documents, that nothing makes it fail or tell secrets."""

import asyncio
import contextlib
import gc
import json
import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest
import pytest_asyncio
import schemathesis
import uvicorn
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import Case, GenerationMode, checks
from starlette.types import Message

from archive.errors import DatabaseUnavailable
from archive.store import Store, migrate
from service.api.openapi import RouteRequirements, stated
from service.api.paging import encode
from service.app import MAX_HEAD_BYTES, create_app, listen, require_admin, serve, settle_memory, tls_files
from service.embedded import EmbeddedServer
from service.errors import InvalidInput
from service.security.access_policy import AccessPolicy, LoginPolicy
from service.security.allowed_hosts import AllowedHosts
from service.security.authentication import Authentication, issue
from service.security.certificates import certified
from service.security.credentials import PATTERN
from service.security.scopes import EVERY_SCOPE, Scope, permitted
from service.settings import Settings
from tests.postgres import empty_database
from tests.service import records
from tests.service.api.conftest import Filled, fill
from tests.service.api.test_examples import resolved
from tests.service.security.test_certificates import made

ROOT = Path(__file__).parent.parent.parent
CONFORMANCE = [
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]
OPEN = {
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/openapi.json"),
    ("HEAD", "/openapi.json"),
    ("GET", "/login"),
    ("POST", "/login"),
}
"""All that a stranger may ask for."""
FOR_ALL = {("POST", "/logout")}
"""What every caller may do, whatever his token says."""
NOBODY = "0190a000-0000-7000-8000-000000000000"
ROUTES = [route for route in stated(create_app(Settings()).routes) if route.method != "HEAD"]
HOST = "reef.example"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def locked(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[FastAPI]:
    """A running app that needs a login."""
    folder = tmp_path_factory.mktemp("reef")
    doors = AccessPolicy(LoginPolicy.ALWAYS, AllowedHosts(frozenset({HOST})))
    async with EmbeddedServer(folder / "redis") as server:
        app = create_app(Settings(data_dir=folder, redis_url=server.url, local_workers=0), doors)
        async with app.router.lifespan_context(app):
            yield app


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def tokens(locked: FastAPI) -> dict[Scope | None, str]:
    """A token for each scope alone, and one that allows nothing."""
    store = locked.state.coordinator.store
    made: dict[Scope | None, str] = {scope: (await issue(store, scope.value, {scope}))[1] for scope in Scope}
    return made | {None: (await issue(store, "nothing", set()))[1]}


def address_of(route: RouteRequirements) -> str:
    """An address that a route answers, about nothing that is there."""
    path = route.path
    for name in ("id", "pin", "hint", "entry", "exchange", "worker", "candidate"):
        path = path.replace(f"{{{name}}}", NOBODY)
    return path.replace("{cell}", "0").replace("{name}", "none").replace("{", "").replace("}", "")


async def status_of(app: FastAPI, route: RouteRequirements, token: str | None) -> int:
    """The status of an answer, without waiting for its end: a stream has none."""
    path = address_of(route)
    headers = [(b"host", HOST.encode()), (b"content-type", b"application/json")]
    if token is not None:
        headers.append((b"authorization", f"Bearer {token}".encode()))
    started: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": route.method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "query_string": b"",
        "headers": headers,
        "client": ("192.0.2.7", 1),
        "server": (HOST, 80),
    }
    bodies = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Message:
        if bodies:
            return bodies.pop()
        return await asyncio.Future()

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start" and not started.done():
            started.set_result(message["status"])

    manual = asyncio.ensure_future(app(scope, receive, send))
    await asyncio.wait({manual, started}, return_when=asyncio.FIRST_COMPLETED)
    manual.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await manual
    return started.result()


def test_every_route_says_who_may_use_it() -> None:
    unstated = {(route.method, route.path) for route in ROUTES if route.scope is None}
    assert unstated == {each for each in OPEN | FOR_ALL if each[0] != "HEAD"}
    assert len(ROUTES) > 40


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_route_is_open_to_its_scope_and_no_other(
    locked: FastAPI, tokens: dict[Scope | None, str], route: RouteRequirements
) -> None:
    is_open = (route.method, route.path) in OPEN
    assert (await status_of(locked, route, None) == 401) != is_open or route.path == "/login"
    for scope, token in tokens.items():
        status = await status_of(locked, route, token)
        allowed = is_open or (route.method, route.path) in FOR_ALL or route.scope in permitted({scope} if scope else ())
        assert (status == 403) != allowed, f"{scope} got {status}"
        assert status < 500, f"{scope} got {status}"


CHANGES = [route for route in ROUTES if route.method not in ("GET", "HEAD") and route.path != "/login"]
"""All but the login, which changes nothing for who shows no token."""


@pytest.mark.parametrize("route", CHANGES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.asyncio(loop_scope="module")
async def test_whatever_changes_something_is_in_the_audit_log(
    locked: FastAPI, tokens: dict[Scope | None, str], route: RouteRequirements
) -> None:
    """Both who may and who may not: nothing that would change something goes unseen."""
    store = locked.state.coordinator.store
    for scope in (route.scope or Scope.READ, None):
        status = await status_of(locked, route, tokens[scope])
        (entry,) = await store.audit.list(limit=1)
        assert (entry.action.split()[0], entry.target, entry.status) == (route.method, address_of(route), status)
        assert entry.caller == (scope.value if scope else "nothing")


@pytest_asyncio.fixture
async def client(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of an app that has not started: enough for everything that never reaches a route."""
    transport = httpx.ASGITransport(create_app(Settings(data_dir=tmp_path)), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield client


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
    assert (await client.get("/redoc")).status_code == 404


@contextlib.contextmanager
def running_service(folder: Path, log: Path | None = None, *, ready: bool = True, **environment: str) -> Iterator[str]:
    """A service in a process of its own, which ends cleanly when it is asked to; its address.

    It is waited for until it is ready, or only until it answers.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    code = (
        "import asyncio, sys; from service.app import serve; from service.logs import configure; "
        "from service.settings import Settings; configure(Settings()); "
        f"asyncio.run(serve(Settings(), '127.0.0.1', {port}, lambda text: print(text, flush=True)))"
    )
    base = {"REEF_DATA_DIR": str(folder), "REEF_LOCAL_WORKERS": "0", "REEF_LOG_LEVEL": "warning"}
    with contextlib.ExitStack() as stack:
        errors = stack.enter_context((log or folder / "log").open("wb"))
        output = stack.enter_context((folder / "output").open("wb"))
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **base, **environment},
            cwd=ROOT,
            stdout=output,
            stderr=errors,
        )
        scheme = "https" if "REEF_TLS_CERTIFICATE" in environment else "http"
        try:
            wait_until_up(process, f"{scheme}://127.0.0.1:{port}/{'readyz' if ready else 'healthz'}")
            yield f"{scheme}://127.0.0.1:{port}"
        finally:
            process.terminate()
            assert process.wait(60) == 0


def wait_until_up(process: "subprocess.Popen[bytes]", address: str) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        assert process.poll() is None, "the service ended by itself"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(address, verify=False).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


async def test_what_fails_at_the_start_is_raised(tmp_path: Path) -> None:
    nowhere = Settings(database_url="postgresql+psycopg://reef@127.0.0.1:1/reef", data_dir=tmp_path)
    shown: list[str] = []
    with pytest.raises(DatabaseUnavailable):
        await serve(nowhere, "127.0.0.1", 0, shown.append)
    with pytest.raises(InvalidInput, match=r"127\.0\.0\.1"):
        await serve(nowhere, "", 0, shown.append)
    with pytest.raises(InvalidInput, match="not a certificate with its key"):
        await serve(Settings(data_dir=tmp_path, tls_certificate=tmp_path / "none"), "127.0.0.1", 0, shown.append)
    with pytest.raises(InvalidInput, match="REEF_TLS_CERTIFICATE too"):
        tls_files(Settings(tls_key=tmp_path / "key.pem"))
    assert shown == []


def test_what_stays_is_no_business_of_the_garbage_collector() -> None:
    settle_memory()
    try:
        assert gc.get_freeze_count() > 10_000 > len(gc.get_objects())
    finally:
        gc.unfreeze()


def test_a_port_that_is_taken_is_said() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(InvalidInput, match="is taken; choose another port") as caught:
        listen("localhost", taken.getsockname()[1])
    assert caught.value.field == "port"


def test_no_answer_waits_until_its_head_is_acknowledged() -> None:
    with listen("127.0.0.1", 0) as listening, socket.create_connection(listening.getsockname()):
        taken, _ = listening.accept()
        with taken:
            assert taken.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


async def test_the_first_token_is_made_and_shown_once(store: Store) -> None:
    shown: list[str] = []
    await asyncio.gather(*(require_admin(store, shown.append) for _ in range(3)))
    await require_admin(store, shown.append)
    (text,) = shown
    caller = await Authentication(store).by_token(text)
    assert (caller.name, caller.scopes) == ("first", EVERY_SCOPE)


async def test_a_service_that_nobody_could_administer_does_not_start(store: Store) -> None:
    shown: list[str] = []
    await require_admin(store, shown.append)
    (token,) = await store.tokens.list()
    await store.tokens.revoke(token.id)
    with pytest.raises(InvalidInput, match="reef token create --scope admin"):
        await require_admin(store, shown.append)
    await issue(store, "second", {Scope.ADMIN})
    await require_admin(store, shown.append)
    assert len(shown) == 1


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty archive, not migrated yet."""
    return empty_database(request, tmp_path / "reef.db")


async def filled_archive(database_url: str) -> Filled:
    await migrate(database_url)
    store = await Store.open(database_url)
    try:
        return await fill(store)
    finally:
        await store.close()


STRICT = [
    "postgresql",
    pytest.param("sqlite", marks=pytest.mark.slow(reason="PostgreSQL refuses all that SQLite refuses")),
]
"""Databases for odd values: the one that takes fewer of them first."""
REQUESTS = [
    pytest.param("postgresql", GenerationMode.POSITIVE, 2),
    pytest.param("sqlite", GenerationMode.NEGATIVE, 2),
    *(
        pytest.param(database, mode, 6, marks=pytest.mark.slow)
        for database in ("sqlite", "postgresql")
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
    ),
]
"""Databases, what is asked, and how often. What breaks the document is mostly refused before any database is asked, so
that one of them does for the short suite; what takes longest is to learn from the document what to ask."""


@pytest.mark.parametrize(("database_url", "mode", "examples"), REQUESTS, indirect=["database_url"])
def test_no_request_makes_it_fail(tmp_path: Path, database_url: str, mode: GenerationMode, examples: int) -> None:
    """Requests as the document has them, about things that are there, and requests that break it."""
    filled = asyncio.run(filled_archive(database_url))
    with running_service(tmp_path, REEF_DATABASE_URL=database_url, REEF_REQUESTS_PER_S="0") as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json").exclude(path_regex="/events$")
        tried = []
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy(generation_mode=mode))
            @settings(max_examples=examples, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
            def answers_as_documented(case: Case) -> None:
                # Tokens that it makes up would only ever be refused.
                case.headers.pop("Authorization", None)
                case.cookies.clear()
                if mode is GenerationMode.POSITIVE and "id" in case.path_parameters:
                    case.path_parameters["id"] = filled.best if "/candidates/" in case.path else filled.search.id
                case.call_and_validate(checks=CONFORMANCE)

            # There is no wrong way to ask for what takes nothing.
            with contextlib.suppress(Unsatisfiable):
                answers_as_documented()
                tried.append(operation.label)
        assert {"POST /api/v1/searches", "POST /api/v1/tokens", "POST /login"} <= set(tried)
        assert httpx.get(f"{address}/readyz").status_code == 200


ODD = ("\0", "9" * 30, str(2**63), "-1", "%", "x" * 3000)
ODD_KEYS: tuple[tuple[int | float | str, ...], ...] = (
    *((10**400, "x"), (float("nan"), "x"), (1.5, "\ud800"), (1.5, "\0"), (1.5, 2**63)),
    *(("\0",), ("\ud800",), (2**63,), (True,)),
)
"""What cursors are made of, as nobody but a stranger makes them."""
ON_PAGES = ("before", "token", "next", "left", "right", "x", "device", "variant", "against", "outcome")
"""What addresses of pages may ask for, which no document tells."""


def odd_questions(names: Sequence[str], odd: Mapping[str, Sequence[str]], whole: bool) -> Iterator[dict[str, str]]:
    """Every odd value for every name; or each name with one of them, and each of them for all names at once."""
    for place, name in enumerate(names):
        values = odd.get(name, ODD)
        yield from ({name: value} for value in (values if whole else (values[place % len(values)],)))
    if not whole:
        yield from ({name: value for name in names} for value in ODD)


@pytest.mark.parametrize("database_url", STRICT, indirect=True)
@pytest.mark.parametrize("whole", [False, pytest.param(True, marks=pytest.mark.slow)], ids=["some", "all"])
def test_no_address_makes_it_fail(tmp_path: Path, database_url: str, whole: bool) -> None:
    """Pages take ten names each, most of which they ignore: all pairs of a name and a value are for the long suite."""
    filled = asyncio.run(filled_archive(database_url))
    odd = {"cursor": [encode(key) for key in ODD_KEYS]}
    with (
        running_service(tmp_path, REEF_DATABASE_URL=database_url, REEF_REQUESTS_PER_S="0") as address,
        httpx.Client(base_url=address, timeout=30) as client,
    ):
        document = client.get("/openapi.json").json()["paths"]
        for path in sorted({route.path for route in ROUTES if route.method == "GET"}):
            if path.endswith(("/events", "/live")):
                continue
            known = document.get(path, {}).get("get", {}).get("parameters", ())
            names = [each["name"] for each in known if each["in"] == "query"] if path in document else ON_PAGES
            id = filled.best if "candidates/{id}" in path else filled.search.id
            where = path.replace("{id}", id).replace("{cell}", "0").replace("{name}", "rmsnorm")
            device = {"device": records.DEVICE} if "device" in names else {}
            asked = [{**device, **each} for each in odd_questions(names, odd, whole or path in document)]
            assert [params for params in asked if client.get(where, params=params).status_code >= 500] == [], path
            for value in ODD if "{" in path else ():
                there = re.sub(r"\{\w+\}", quote(value, safe=""), path)
                assert client.get(there).status_code < 500, there


def odd_bodies(body: Any) -> Iterator[Any]:
    """A body with one odd value in place of each text and number in it."""
    if isinstance(body, dict):
        for key, value in body.items():
            yield from ({**body, key: odd} for odd in odd_bodies(value))
    elif isinstance(body, list):
        for index, value in enumerate(body):
            yield from ([*body[:index], odd, *body[index + 1 :]] for odd in odd_bodies(value))
    elif isinstance(body, str):
        yield from ("\0", "\ud800", body + "\0", body + "\ud800")
    elif isinstance(body, int | float) and not isinstance(body, bool):
        yield from (-1, 2**63, 10**400)


@pytest.mark.parametrize("database_url", STRICT, indirect=True)
def test_no_body_makes_it_fail(tmp_path: Path, database_url: str) -> None:
    filled = asyncio.run(filled_archive(database_url))
    with (
        running_service(tmp_path, REEF_DATABASE_URL=database_url, REEF_REQUESTS_PER_S="0") as address,
        httpx.Client(base_url=address, timeout=30, headers={"Content-Type": "application/json"}) as client,
    ):
        document = client.get("/openapi.json").json()
        asked = set()
        for path, item in document["paths"].items():
            id = filled.best if "candidates/{id}" in path else filled.search.id
            where = path.replace("{id}", id).replace("{cell}", "0").replace("{name}", "rmsnorm")
            for method, operation in item.items():
                content = operation.get("requestBody", {}).get("content", {}).get("application/json")
                for body in odd_bodies(resolved(document, content["schema"])["examples"][0]) if content else ():
                    answer = client.request(method, where, content=json.dumps(body))
                    assert answer.status_code < 500, (method, path, body, answer.text)
                    asked.add(f"{method} {path}")
        assert {"post /api/v1/searches", "post /api/v1/operators", "patch /api/v1/searches/{id}"} <= asked


def test_a_connection_that_sends_nonsense_is_ended(tmp_path: Path) -> None:
    with running_service(tmp_path) as address:
        where = ("127.0.0.1", int(address.rpartition(":")[2]))
        get = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n"
        for sent, status in (
            (b"\x16\x03\x01\x00nonsense\r\n\r\n", b"400"),
            (get + b"X: " + b"x" * (MAX_HEAD_BYTES * 2), b"400"),
            (get + b"X: " + b"x" * (MAX_HEAD_BYTES - 8000) + b"\r\n\r\n", b"431"),
            (get + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\nabc", b"200"),
            (b"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999999999\r\n\r\n", b"413"),
        ):
            with socket.create_connection(where, timeout=10) as connection, contextlib.suppress(ConnectionError):
                connection.sendall(sent)
                assert status in connection.recv(100).partition(b"\r\n")[0], sent[:60]
        assert httpx.get(f"{address}/healthz").status_code == 200


async def test_bodies_that_drip_are_ended_and_hold_up_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("service.app.BODY_S", 2.0)
    app = create_app(Settings(data_dir=tmp_path, local_workers=0))
    async with app.router.lifespan_context(app):
        server = uvicorn.Server(uvicorn.Config(app, lifespan="off", log_config=None))
        with listen("127.0.0.1", 0) as listening:
            serving, where = asyncio.create_task(server.serve([listening])), listening.getsockname()
            dripping = [await asyncio.open_connection(*where) for _ in range(100)]
            for _, writer in dripping:
                writer.write(b"POST /api/v1/searches HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999\r\n\r\n{")
            async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{where[1]}") as client, asyncio.timeout(1.5):
                made = await client.post("/api/v1/searches", json={"operator": "rmsnorm"})
                assert made.status_code == 202
            for reader, writer in dripping:
                assert b" 408 " in (await asyncio.wait_for(reader.read(), 30)).partition(b"\r\n")[0]
                writer.close()
            server.should_exit = True
            await serving


def test_no_log_tells_a_secret(tmp_path: Path) -> None:
    """Everything that holds a secret is sent, right and wrong; then the logs are searched for all of them."""
    log = tmp_path / "log"
    environment = {"REEF_LOG_LEVEL": "debug", "REEF_ALLOWED_HOSTS": HOST}
    with running_service(tmp_path, log, **environment) as address:
        token = (tmp_path / "output").read_text().strip()
        assert PATTERN.fullmatch(token)
        wrong = token[:-10] + "0000000000"
        secrets = [token, token[27:70], wrong[27:]]
        with httpx.Client(base_url=address, headers={"Host": HOST}) as client:
            for text in (token, wrong):
                program = {"Authorization": f"Bearer {text}"}
                client.get("/api/v1/tokens", headers=program)
                client.post("/api/v1/searches", headers=program, content=b"{", params={"token": text})
                client.post(f"/{text}", headers=program)
                client.post("/login", json={"token": text, "token2": text})
                client.post("/login", data={"token": text})
            made = client.post(
                "/api/v1/tokens",
                headers={"Authorization": f"Bearer {token}", "Idempotency-Key": "once"},
                json={"name": "x", "scopes": ["read"]},
            )
            session = client.post("/login", json={"token": token})
            assert (made.status_code, session.status_code) == (201, 200)
            cookie = session.headers["set-cookie"].partition(";")[0].partition("=")[2]
            csrf = session.json()["csrf"]
            client.post("/logout", headers={"X-CSRF-Token": csrf})
            secrets += [made.json()["token"], cookie, csrf]
    logged = log.read_text(errors="replace")
    assert logged, "the log of a debugging service says something"
    assert [secret for secret in secrets if secret in logged] == []
    kept = b"".join(path.read_bytes() for path in tmp_path.glob("reef.db*"))
    assert [secret for secret in secrets if secret.encode() in kept] == [], "nor does the archive"


def test_it_speaks_tls_where_there_is_a_certificate(tmp_path: Path) -> None:
    certificate = tmp_path / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    made = tmp_path / "cert.pem", tmp_path / "key.pem"
    subprocess.run([*command, *names, "-out", str(made[0]), "-keyout", str(made[1])], check=True, capture_output=True)
    certificate.write_bytes(b"".join(path.read_bytes() for path in made))
    with running_service(tmp_path, REEF_TLS_CERTIFICATE=str(certificate)) as address:
        trusting = ssl.create_default_context(cafile=str(made[0]))
        assert httpx.get(f"{address}/healthz", verify=trusting).status_code == 200
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{address}/healthz")


async def test_it_reaches_the_queue_over_tls_alone_if_told_so(tmp_path: Path) -> None:
    """The queue is another's: its certificate is checked, and what is wrong with it is said without the password."""
    (tmp_path / "other").mkdir()
    certificate, key = made(tmp_path)
    another, _ = made(tmp_path / "other")
    with listen("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    tls = certified(certificate, key)
    async with EmbeddedServer(tmp_path / "redis", public=f"rediss://localhost:{port}", tls=tls) as server:
        password = server.url.partition("://:")[2].partition("@")[0]
        url = f"rediss://:{password}@localhost:{port}/0"

        def said_of(folder: str, ca: Path) -> tuple[int, str]:
            """What a service answers that trusts a certificate, and what it logs."""
            (tmp_path / folder).mkdir()
            environment = {"REEF_REDIS_URL": url, "REEF_REDIS_CA": str(ca), "REEF_LOG_LEVEL": "debug"}
            with running_service(tmp_path / folder, ready=ca == certificate, **environment) as address:
                status = httpx.get(f"{address}/readyz").status_code
            return status, (tmp_path / folder / "log").read_text(errors="replace")

        right, wrong = [await asyncio.to_thread(said_of, *each) for each in (("a", certificate), ("b", another))]
        assert (right[0], wrong[0]) == (200, 503)
        assert "certificate" in wrong[1].lower()
        assert password not in right[1] + wrong[1]


FETCHES_NOTHING = """
import sys
from service.errors import ServiceError
from service.operators.specs import parse_operator

opened = []
# A SyntaxError looks for its line in the file that the source came from; ours come from none and are called <unknown>.
WATCHED = ("open", "socket.", "urllib.", "http.", "ftplib.", "subprocess.", "os.system", "os.exec", "ctypes.dlopen")

def watch(event, args):
    if event.startswith(WATCHED) and args[:1] != ("<unknown>",):
        opened.append((event, args))

sys.addaudithook(watch)
PLACES = ["http://169.254.169.254/latest", "https://127.0.0.1:1/", "file:///etc/passwd", "/etc/passwd",
          "../../../etc/passwd", "ftp://127.0.0.1/", "//attacker.example/x", "reference.py"]
SPEC = {"name": "copy", "entry": "copy", "inputs": [{"name": "x", "shape": ["N"], "dtype": "float32"}],
        "outputs": [{"name": "y", "dtype": "float32"}], "shapes": [{"N": 128}],
        "reference": "def copy(x):\\n    return x\\n",
        "seeds": ["import triton\\ndef copy(x):\\n    return x\\n"]}
for place in PLACES:
    for name in (*SPEC, "include", "extends", "url", "$ref"):
        for value in (place, [place], {"$ref": place}, [{"name": place, "shape": [place], "dtype": place}]):
            try:
                parse_operator({**SPEC, name: value})
            except ServiceError:
                pass
print(opened)
"""


def test_no_operator_makes_us_fetch_or_open_anything() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FETCHES_NOTHING], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "[]", "")
