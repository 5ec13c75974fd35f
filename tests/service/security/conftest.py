"""An archive to keep tokens and sessions in, and a time that is moved by hand."""

from datetime import UTC, datetime

import pytest


class Clock:
    """A time that is moved by hand."""

    at = datetime(2026, 11, 21, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.at


@pytest.fixture
def clock() -> Clock:
    return Clock()
