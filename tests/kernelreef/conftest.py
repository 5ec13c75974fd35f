"""The real app, with a client that reaches it inside this process and one that goes over HTTP."""

import asyncio
from collections.abc import AsyncIterator

import pytest_asyncio
import uvicorn

from kernelreef import AsyncReef
from kernelreef.in_process import InProcessTransport
from tests.service.api.conftest import Service, client, filled, service

__all__ = ["client", "filled", "service"]


@pytest_asyncio.fixture(scope="module", loop_scope="module", params=["inside", "http"])
async def reef(request, service: Service) -> AsyncIterator[AsyncReef]:
    """A client, both ways."""
    if request.param == "inside":
        async with AsyncReef("http://127.0.0.1", transport=InProcessTransport(service.app), attempts=1) as inside:
            yield inside
        return
    server = uvicorn.Server(uvicorn.Config(service.app, port=0, lifespan="off", log_level="warning"))
    task = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    async with AsyncReef(f"http://127.0.0.1:{port}") as outside:
        yield outside
    server.should_exit = True
    await task
