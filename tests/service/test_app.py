"""The app as a whole: who may do what on every route, what it documents, that nothing makes it fail or tell secrets."""

import asyncio
import contextlib
import os
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
import schemathesis
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings
from schemathesis import Case, checks
from starlette.types import Message

from archive.errors import Unavailable
from archive.store import Store, migrate
from service.api.document import Stated, stated
from service.app import MAX_HEAD_BYTES, create_app, listen, require_admin, serve, tls_files
from service.embedded import EmbeddedServer
from service.errors import BadInput
from service.security.authentication import Authentication, issue
from service.security.credentials import PATTERN
from service.security.doors import Doors, Login
from service.security.hosts import Hosts
from service.security.scopes import EVERY_SCOPE, Scope
from service.settings import Settings

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
    doors = Doors(Login.ALWAYS, Hosts(frozenset({HOST})))
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


async def status_of(app: FastAPI, route: Stated, token: str | None) -> int:
    """The status of an answer, without waiting for its end: a stream has none."""
    path = route.path
    for name in ("id", "pin", "hint", "entry", "exchange", "worker", "candidate"):
        path = path.replace(f"{{{name}}}", NOBODY)
    path = path.replace("{cell}", "0").replace("{name}", "none").replace("{", "").replace("}", "")
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

    answering = asyncio.ensure_future(app(scope, receive, send))
    await asyncio.wait({answering, started}, return_when=asyncio.FIRST_COMPLETED)
    answering.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await answering
    return started.result()


def test_every_route_says_who_may_use_it() -> None:
    unstated = {(route.method, route.path) for route in ROUTES if route.scope is None}
    assert unstated == {each for each in OPEN | FOR_ALL if each[0] != "HEAD"}
    assert len(ROUTES) > 40


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_route_is_open_to_its_scope_and_no_other(
    locked: FastAPI, tokens: dict[Scope | None, str], route: Stated
) -> None:
    is_open = (route.method, route.path) in OPEN
    assert (await status_of(locked, route, None) == 401) != is_open or route.path == "/login"
    for scope, token in tokens.items():
        status = await status_of(locked, route, token)
        allowed = is_open or (route.method, route.path) in FOR_ALL or scope == route.scope
        assert (status == 403) != allowed, f"{scope} got {status}"
        assert status < 500, f"{scope} got {status}"


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
    for page in ("/docs", "/redoc"):
        assert (await client.get(page)).status_code == 404


@contextlib.contextmanager
def running_service(folder: Path, log: Path | None = None, **environment: str) -> Iterator[str]:
    """A service in a process of its own, which ends cleanly when it is asked to; its address."""
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
            wait_until_ready(process, f"{scheme}://127.0.0.1:{port}")
            yield f"{scheme}://127.0.0.1:{port}"
        finally:
            process.terminate()
            assert process.wait(60) == 0


def wait_until_ready(process: "subprocess.Popen[bytes]", address: str) -> None:
    give_up = time.monotonic() + 60
    while time.monotonic() < give_up:
        assert process.poll() is None, "the service ended by itself"
        with contextlib.suppress(httpx.TransportError):
            if httpx.get(f"{address}/readyz", verify=False).status_code == 200:
                return
        time.sleep(0.1)
    raise AssertionError("the service did not become ready")


async def test_what_fails_at_the_start_is_raised(tmp_path: Path) -> None:
    nowhere = Settings(database_url="postgresql+psycopg://reef@127.0.0.1:1/reef", data_dir=tmp_path)
    shown: list[str] = []
    with pytest.raises(Unavailable):
        await serve(nowhere, "127.0.0.1", 0, shown.append)
    with pytest.raises(BadInput, match=r"127\.0\.0\.1"):
        await serve(nowhere, "", 0, shown.append)
    with pytest.raises(BadInput, match="no certificate with its key"):
        await serve(Settings(data_dir=tmp_path, tls_certificate=tmp_path / "none"), "127.0.0.1", 0, shown.append)
    with pytest.raises(BadInput, match="REEF_TLS_CERTIFICATE too"):
        tls_files(Settings(tls_key=tmp_path / "key.pem"))
    assert shown == []


def test_a_port_that_is_taken_is_said() -> None:
    with listen("127.0.0.1", 0) as taken, pytest.raises(BadInput, match="cannot listen on localhost") as caught:
        listen("localhost", taken.getsockname()[1])
    assert caught.value.field == "host"


@pytest_asyncio.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    url = f"sqlite+aiosqlite:///{tmp_path / 'archive.db'}"
    await migrate(url)
    opened = await Store.open(url)
    yield opened
    await opened.close()


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
    with pytest.raises(BadInput, match="reef token create --scope admin"):
        await require_admin(store, shown.append)
    await issue(store, "second", {Scope.ADMIN})
    await require_admin(store, shown.append)
    assert len(shown) == 1


def test_no_request_makes_it_fail(tmp_path: Path) -> None:
    with running_service(tmp_path) as address:
        schema = schemathesis.openapi.from_url(f"{address}/openapi.json").exclude(path_regex="/events$")
        tried = []
        for found in schema.get_all_operations():
            operation = found.ok()

            @given(case=operation.as_strategy())
            @settings(max_examples=6, deadline=None, database=None, suppress_health_check=list(HealthCheck))
            def answers_as_documented(case: Case) -> None:
                # Tokens that it makes up would only ever be refused.
                case.headers.pop("Authorization", None)
                case.cookies.clear()
                case.call_and_validate(checks=CONFORMANCE)

            answers_as_documented()
            tried.append(operation.label)
        assert {"POST /api/v1/searches", "POST /api/v1/tokens", "POST /login"} <= set(tried)
        assert httpx.get(f"{address}/readyz").status_code == 200


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
