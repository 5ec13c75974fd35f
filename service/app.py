"""The ASGI app: REST and pages over one coordinator. Wiring only."""

import contextlib
import errno
import gc
import signal
import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from starlette.middleware import Middleware

import service
from archive.errors import RecordConflict
from archive.records import SearchState
from archive.store import Store
from service.api import SOFTWARE_VERSION
from service.api.audit_middleware import AuditRecorder
from service.api.auth import AuthMiddleware
from service.api.concurrency import ReaderLimit
from service.api.csrf import CsrfGuard
from service.api.former_routes import FormerRoutes
from service.api.idempotency import IdempotencyMiddleware
from service.api.limits import BodyLimit, HeaderLimit
from service.api.openapi import describe, operation_id
from service.api.problems import install
from service.api.response_cache import ResponseCache
from service.api.routing import routes
from service.api.session_expiry import SessionExpiry
from service.coordinator import Coordinator
from service.dashboard import install_pages
from service.discovery import discoverable
from service.errors import InvalidInput
from service.events import EventBus
from service.fleet.executor_template import ExecutorTemplate
from service.security.access_policy import AccessPolicy, LoginPolicy, doors_for
from service.security.authentication import FIRST_TOKEN, issue, utc_now
from service.security.certificates import certified
from service.security.scopes import EVERY_SCOPE, Scope
from service.settings import Settings

STOP_S = 3
"""Seconds that open connections get at shutdown."""
MAX_BODY_BYTES = 4 * 2**20
"""Maximum size of a request body: twice the longest operator spec, because JSON escapes take room."""
BODY_S = 30.0
"""Seconds until a body must be complete: the largest one at 140 kB per second."""
MAX_HEAD_BYTES = 32 * 2**10
"""Maximum size of a request's head; above the limit of `HeaderLimit`, which answers with a problem document."""


class ReefApp(FastAPI):
    """FastAPI app whose OpenAPI document also describes problem documents and each route's required scope."""

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document, built once."""
        if self.openapi_schema is None:
            describe(super().openapi(), self.routes)
        assert self.openapi_schema is not None
        return self.openapi_schema


@asynccontextmanager
async def running(
    app: FastAPI,
    settings: Settings,
    *,
    named_only: bool = False,
    devices: Sequence[str] = (),
    template: ExecutorTemplate | None = None,
) -> AsyncIterator[None]:
    """Run a coordinator for an app; with `named_only`, it runs only searches that the app submits or resumes.

    The workers of `devices`, which the first submission will name, start at once; their executors fork from `template`.

    Raises:
        ServiceError: If the queue or another dependency does not start.
        ArchiveError: If the database does not answer.
    """
    coordinator = await Coordinator.open(settings, named_only=named_only, devices=devices, template=template)
    app.state.coordinator = coordinator
    try:
        yield
    finally:
        coordinator.events.close()
        await coordinator.close()


def create_app(settings: Settings, doors: AccessPolicy | None = None) -> FastAPI:
    """Build the service as an ASGI app. Its server must run its lifespan.

    Args:
        settings: Settings of the coordinator.
        doors: Access policy. The default checks the host name only, for use within a program.
    """
    app = ReefApp(
        title="Kernelreef",
        description=service.__doc__ or "",
        version=SOFTWARE_VERSION,
        generate_unique_id_function=operation_id,
        lifespan=lambda app: running(app, settings),
        docs_url=None,
        redoc_url=None,
        middleware=[
            Middleware(HeaderLimit),
            Middleware(FormerRoutes),
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
    """Server that ends event streams before it waits for open connections; they never end by themselves."""

    def __init__(self, config: uvicorn.Config, events: EventBus) -> None:
        """Prepare to serve an app whose streams are fed by `events`."""
        super().__init__(config)
        self._events = events

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End the event streams, then everything else."""
        self._events.close()
        await super().shutdown(sockets)


async def serve(
    settings: Settings,
    host: str,
    port: int,
    announce: Callable[[str], None],
    ready: Callable[[str, int], None] = lambda url, searches: None,
) -> None:
    """Serve until SIGINT or SIGTERM. Failures of the start are raised here; uvicorn would only print a trace.

    Args:
        settings: Settings from the environment.
        host: Address to listen on.
        port: Port to listen on; 0 for any.
        announce: Shows a person the first token of an archive. It cannot be shown again.
        ready: Called when it serves, with its address on this machine and the number of searches that it continues.

    Raises:
        InvalidInput: If other machines can reach the service but nobody can log in, or the certificate is unreadable.
        ServiceError: If the queue or another dependency does not start.
        ArchiveError: If the database does not answer.
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
            # uvicorn raises the signal again after it has stopped; it must not end the process before the cleanup.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, lambda *_: None)
            settle_memory()
            url = address_of(listening, host, tls=settings.tls_certificate is not None)
            open_searches = await app.state.coordinator.store.search_leases.fingerprints()
            ready(url, sum(each.state is not SearchState.PAUSED for each in open_searches))
            # A certificate is for other names than this machine's own, so commands here could not verify it.
            found = contextlib.nullcontext() if settings.tls_certificate else discoverable(settings.data_dir, url)
            with found:
                await ReefServer(config, app.state.coordinator.events).serve([listening])


def address_of(listening: socket.socket, host: str, *, tls: bool) -> str:
    """Return the address under which this machine reaches a service that listens on a host."""
    name, port = listening.getsockname()[:2]
    if name in ("0.0.0.0", "::"):
        name = "127.0.0.1" if name == "0.0.0.0" else "::1"
    elif tls:
        name = host
    return f"{'https' if tls else 'http'}://{f'[{name}]' if ':' in name else name}:{port}"


def settle_memory() -> None:
    """Exclude the objects made at start-up from garbage collection; they live as long as the process.

    A full collection walks every module and compiled schema: 140 ms on a laptop's core, during which no request is
    answered.
    """
    gc.collect()
    gc.freeze()


def listen(host: str, port: int) -> socket.socket:
    """Open a listening socket with TCP_NODELAY.

    A response is written in two parts, head and body. Without TCP_NODELAY the body waits for the acknowledgement of
    the head, which the client delays by 40 ms. asyncio sets the option only for sockets that name their protocol.

    Raises:
        InvalidInput: If the address is not this machine's, or the port is taken.
    """
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.create_server(address[:2], family=family)
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InvalidInput(f"{host}:{port} is taken; choose another port, or 0 for any", "port") from error
        detail = f"cannot listen on {host}, port {port}: {error.strerror}; name an address of this machine"
        raise InvalidInput(detail, "host") from error
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def tls_files(settings: Settings) -> dict[str, Any]:
    """Return uvicorn's TLS options; empty without a certificate.

    Raises:
        InvalidInput: If there is a key without a certificate, or the two do not belong together.
    """
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None:
        if key is not None:
            raise InvalidInput("a key needs its certificate; set REEF_TLS_CERTIFICATE too", "REEF_TLS_KEY")
        return {}
    certified(certificate, key)
    return {"ssl_certfile": certificate, "ssl_keyfile": key}


async def require_admin(store: Store, announce: Callable[[str], None]) -> None:
    """Ensure that an admin can log in: the first start of an archive creates a token with every scope.

    Raises:
        InvalidInput: If tokens existed before and no usable one has the admin scope.
    """
    if await store.tokens.usable(Scope.ADMIN, utc_now()):
        return
    try:
        _, text = await issue(store, "first", EVERY_SCOPE, id=FIRST_TOKEN)
    except RecordConflict as error:
        # The token was revoked, has expired, or was created just now by another coordinator.
        if not await store.tokens.usable(Scope.ADMIN, utc_now()):
            detail = "no usable token has the scope admin; create one on this machine: reef token create --scope admin"
            raise InvalidInput(detail, "host") from error
        return
    announce(text)
