"""A vendor for each test that asks for one."""

from collections.abc import AsyncIterator

import pytest

from tests.service.llm.vendors import Vendor, vendor


@pytest.fixture(name="vendor")
async def _vendor() -> AsyncIterator[Vendor]:
    async with vendor() as running:
        yield running
