"""A real queue for tests: one embedded server a test process, emptied before each test."""

from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
import redis

from service.embedded import EmbeddedServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def redis_server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[EmbeddedServer]:
    async with EmbeddedServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: EmbeddedServer) -> str:
    with redis.Redis.from_url(redis_server.url) as client:
        client.flushall()
    return redis_server.url
