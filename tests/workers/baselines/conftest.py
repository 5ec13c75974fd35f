"""Turns on a card that is not there."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from workers.turns import Turns


@pytest.fixture
def turns(tmp_path: Path) -> Iterator[Turns]:
    with closing(Turns("0", tmp_path)) as turns:
        yield turns
