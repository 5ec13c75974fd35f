"""The app: REST over one coordinator. Wiring only."""

import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware import Middleware

import service
from archive.errors import RecordConflict
from archive.store import Store
from service.api.audit_middleware import AuditRecorder
from service.api.auth import AuthMiddleware
from service.api.concurrency import ReaderLimit
from service.api.csrf import CsrfGuard
from service.api.idempotency import IdempotencyMiddleware
from service.api.limits import BodyLimit, HeaderLimit
from service.api.openapi import describe
from service.api.problems import install
from service.api.response_cache import ResponseCache
from service.api.routing import routes
from service.api.session_expiry import SessionExpiry
from service.coordinator import Coordinator
from service.dashboard import install_pages
from service.errors import InvalidInput
from service.events import EventBus
from service.security.access_policy import AccessPolicy, LoginPolicy, doors_for
from service.security.authentication import FIRST_TOKEN, issue, utc_now
from service.security.certificates import certified
from service.security.scopes import EVERY_SCOPE, Scope
from service.settings import Settings

STOP_S = 3
"""Seconds that open connections get at the end."""
MAX_BODY_BYTES = 4 * 2**20
"""Largest body taken, in bytes: the longest operator spec there is, twice over for JSON's escapes."""
BODY_S = 30.0
"""Seconds until a body must have come: the largest one at 140 kB a second."""
MAX_HEAD_BYTES = 32 * 2**10
"""Of a request's head that the server holds before it gives up; above what `HeaderLimit` answers with a problem."""


class ReefApp(FastAPI):
    """FastAPI whose document also says what problems look like and what each route asks of its caller."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, made once."""
        if self.openapi_schema is None:
            describe(super().openapi(), self.routes)
        assert self.openapi_schema is not None
        return self.openapi_schema


@asynccontextmanager
async def running(app: FastAPI, settings: Settings) -> AsyncIterator[None]:
    """Run a coordinator for an app.

    Raises:
        ServiceError: If something we stand on does not start.
        ArchiveError: If the database does not.
    """
    coordinator = await Coordinator.open(settings)
    app.state.coordinator = coordinator
    try:
        yield
    finally:
        coordinator.events.close()
        await coordinator.close()


def create_app(settings: Settings, doors: AccessPolicy | None = None) -> FastAPI:
    """The service as an ASGI app, for a server that runs its lifespan.

    Args:
        settings: What the coordinator needs.
        doors: What it asks of those who come; nothing but the right host name if left out, for use within a program.
    """
    app = ReefApp(
        title="Kernelreef",
        description=service.__doc__ or "",
        version="1",
        lifespan=lambda app: running(app, settings),
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(HeaderLimit),
            Middleware(AuditRecorder),
            Middleware(AuthMiddleware, doors=doors or AccessPolicy()),
            Middleware(ResponseCache),
            Middleware(ReaderLimit),
            Middleware(SessionExpiry),
            Middleware(BodyLimit, most_bytes=MAX_BODY_BYTES, longest_s=BODY_S),
            Middleware(CsrfGuard),
            Middleware(IdempotencyMiddleware),
        ],
    )
    install(app)
    app.include_router(routes())
    install_pages(app)
    return app


class ReefServer(uvicorn.Server):
    """A server that ends event streams before it waits for open connections: they never end by themselves."""

    def __init__(self, config: uvicorn.Config, events: EventBus) -> None:
        """Prepare to serve an app whose streams `events` feeds."""
        super().__init__(config)
        self._events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the streams, then everything else."""
        self._events.close()
        await super().shutdown(sockets)


async def serve(settings: Settings, host: str, port: int, announce: Callable[[str], None]) -> None:
    """Serve until SIGINT or SIGTERM. What fails at the start is raised here, for a server would only print its trace.

    Args:
        settings: What the environment says.
        host: Address to listen on.
        port: Port to listen on; 0 for any.
        announce: Shows a person the first token of an archive, which is the one time that anybody can see it.

    Raises:
        BadInput: If others could reach the service and nobody could log in, or the certificate cannot be read.
        ServiceError: If something we stand on does not start.
        ArchiveError: If the database does not.
    """
    doors = doors_for(host, settings.allowed_hosts or (), settings.requests_per_s)
    app = create_app(settings, doors)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=STOP_S,
        http="h11",
        h11_max_incomplete_event_size=MAX_HEAD_BYTES,
        ws="none",
        **tls_files(settings),
    )
    with listen(host, port) as listening:
        async with running(app, settings):
            if doors.login is LoginPolicy.ALWAYS:
                await require_admin(app.state.coordinator.store, announce)
            # The server sends itself the signal again when it has stopped; it must not end us before we are closed.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)
            settle_memory()
            await ReefServer(config, app.state.coordinator.events).serve([listening])


def settle_memory() -> None:
    """Take what the start-up made out of the garbage collector's sight: it stays as long as we do.

    A full collection walks through every module and every compiled schema, for some 140 ms on a laptop's core, and all
    who read wait for it.
    """
    gc.collect()
    gc.freeze()


def listen(host: str, port: int) -> socket.socket:
    """A socket that takes connections.

    What is written to them leaves at once: an answer is written in two parts, its head and its body, and the second
    would otherwise wait for the first to be acknowledged, which takes the other side 40 ms. asyncio sees to that only
    for sockets that name their protocol.

    Raises:
        BadInput: If the address is not this machine's, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family)
    except OSError as error:
        raise InvalidInput(f"cannot listen on {host}, port {port}: {error.strerror}", "host") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def tls_files(settings: Settings) -> dict[str, Any]:
    """What the server is told of TLS; nothing without a certificate.

    Raises:
        BadInput: If there is a key alone, or the files are no certificate with its key.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        if key is not None:
            raise InvalidInput("there is a key and no certificate; set REEF_TLS_CERTIFICATE too", "REEF_TLS_KEY")
        return {}
    certified(certificate, key)
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


async def require_admin(store: Store, announce: Callable[[str], None]) -> None:
    """Have somebody who can log in: the first start of an archive makes a token that may do everything.

    Raises:
        BadInput: If there were tokens before and none that may make others is left.
    """
    if await store.tokens.usable(Scope.ADMIN, utc_now()):
        return
    try:
        _, text = await issue(store, "first", EVERY_SCOPE, id=FIRST_TOKEN)
    except RecordConflict as error:
        # Either it was revoked or has expired, or another service made it just now.
        if not await store.tokens.usable(Scope.ADMIN, utc_now()):
            detail = "no token is left that may administer; make one on this machine: reef token create --scope admin"
            raise InvalidInput(detail, "host") from error
        return
    announce(text)
