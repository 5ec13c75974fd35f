"""Records of access: when a token is usable."""

from datetime import datetime, timedelta
from typing import Any

import pytest

from archive.records import TokenRecord
from tests.archive.access import NOON, new_token


@pytest.mark.parametrize(
    ("expires_at", "revoked_at", "usable"),
    [
        (None, None, True),
        (NOON + timedelta(microseconds=1), None, True),
        (NOON, None, False),
        (None, NOON - timedelta(days=1), False),
        (None, NOON + timedelta(days=1), False),
    ],
)
def test_a_token_is_usable_until_it_expires_or_is_revoked(
    expires_at: datetime | None, revoked_at: datetime | None, usable: bool
) -> None:
    fresh: dict[str, Any] = vars(new_token(expires_at=expires_at))
    token = TokenRecord(**fresh, created_at=NOON, revoked_at=revoked_at, last_used_at=None)
    assert token.is_usable(NOON) is usable
