"""The dashboard over a real archive: a search that found something, and one whose every text is hostile."""

from collections.abc import AsyncIterator

import httpx
import pytest_asyncio

from tests.service.api.conftest import Filled, Service, filled, service
from tests.service.dashboard.hostile import Hostile, store_hostile

__all__ = ["Filled", "Hostile", "Service", "filled", "hostile", "pages", "service"]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pages(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """A browser without scripts: follows no redirects, so that tests see them."""
    transport = httpx.ASGITransport(service.app, raise_app_exceptions=False)
    headers = {"Accept": "text/html"}
    async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
        yield client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def hostile(service: Service) -> Hostile:
    return await store_hostile(service.coordinator.store)
