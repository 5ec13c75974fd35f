"""Turns on a card that is not there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from workers.gpu_lock import GpuLock


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[GpuLock]:
    with closing(GpuLock("0", tmp_path)) as turns:
        yield turns
