"""The queue's suite runs over the embedded server, and over a Redis of this machine where there is one."""

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
import redis

from service.embedded import EmbeddedServer

PROGRAMS: dict[str, Path | None] = {"embedded": None}
if found := shutil.which("redis-server"):
    PROGRAMS["redis-server"] = Path(found)


@pytest_asyncio.fixture(scope="session", loop_scope="session", params=PROGRAMS)
async def queue_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path_factory.mktemp("queue"), program=PROGRAMS[request.param]) as server:
        yield server


@pytest.fixture
def redis_url(queue_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(queue_server.url) as client:
        client.flushall()
    return queue_server.url
