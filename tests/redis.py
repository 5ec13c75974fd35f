"""A real queue for tests: one embedded server a test process, emptied before each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis

from service.embedded import EmbeddedServer
from workers.queue import Dispatcher


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url


@pytest.fixture
async def dispatcher(redis_url: str) -> AsyncIterator[Dispatcher]:
    dispatcher = Dispatcher(redis_url)
    yield dispatcher
    await dispatcher.close()
