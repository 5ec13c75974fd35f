"""The app: REST over one coordinator. Wiring only."""

import re
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from ipaddress import ip_address
from typing import Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException, Request

import service
from service.api import routes
from service.api.limits import BodyLimit
from service.api.problems import Problem, install
from service.coordinator import Coordinator
from service.errors import BadInput
from service.settings import Settings

STOP_S = 3
"""Seconds that open connections get at the end; event streams never end by themselves."""
MAX_BODY_BYTES = 4 * 2**20
"""Largest body taken, in bytes: the longest operator spec there is, twice over for JSON's escapes."""


def is_loopback(host: str) -> bool:
    """Whether an address can be reached from this machine only."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def require_loopback(host: str) -> None:
    """Refuse to serve where strangers could reach us, as long as there is no login.

    Raises:
        BadInput: If the address is not loopback.
    """
    if not is_loopback(host):
        raise BadInput(f"'{host}' can be reached from outside, and there is no login yet; serve on 127.0.0.1", "host")


async def local_host_only(request: Request) -> None:
    """Answer only to this machine's own names.

    Without it a web page could point a name of its own at 127.0.0.1 and steer searches from a visitor's browser.

    Raises:
        HTTPException: 421 if the request names another host.
    """
    host = re.sub(r":\d+$", "", request.headers.get("host", "")).strip("[]")
    if not is_loopback(host):
        raise HTTPException(421, "this service answers to 127.0.0.1 and localhost only")


class Api(FastAPI):
    """FastAPI whose document also describes the problems that every route may answer."""

    def openapi(self) -> dict[str, Any]:
        """The OpenAPI document, with the schema that error answers refer to."""
        document = super().openapi()
        problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
        document["components"]["schemas"].update(problem.pop("$defs"), Problem=problem)
        return document


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


def create_app(settings: Settings) -> FastAPI:
    """The service as an ASGI app, for a server that runs its lifespan."""
    app = Api(
        title="Kernelreef",
        description=service.__doc__ or "",
        version="1",
        lifespan=lambda app: running(app, settings),
        dependencies=[Depends(local_host_only)],
        docs_url=None,
        redoc_url=None,
    )
    app.add_middleware(BodyLimit, most_bytes=MAX_BODY_BYTES)
    install(app)
    app.include_router(routes())
    return app


async def serve(settings: Settings, host: str, port: int) -> None:
    """Serve until SIGINT or SIGTERM. What fails at the start is raised here, for a server would only print its trace.

    Raises:
        BadInput: If the address is not loopback.
        ServiceError: If something we stand on does not start.
        ArchiveError: If the database does not.
    """
    require_loopback(host)
    app = create_app(settings)
    config = uvicorn.Config(
        app, host, port, lifespan="off", log_config=None, access_log=False, timeout_graceful_shutdown=STOP_S
    )
    async with running(app, settings):
        # The server sends itself the signal again when it has stopped; it must not end us before we are closed.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: None)
        await uvicorn.Server(config).serve()
