"""A workbench whose device is a card."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.service.measured import DEVICE, FIRST, SECOND, plant
from tests.service.workbench import Workbench


@pytest.fixture
async def card(tmp_path: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Workbench]:
    """A workbench with a card, and seeds FIRST and SECOND."""
    plant(monkeypatch, FIRST, SECOND)
    bench = await Workbench.open(tmp_path, redis_url)
    bench.devices = (DEVICE,)
    yield bench
    await bench.close()
