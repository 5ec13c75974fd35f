"""The session's cookie: what browsers are told of it, and the second secret that forms carry."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.security.cookies import (
    PLAIN_NAME,
    SECURE_NAME,
    clear_cookie,
    csrf_token,
    name_of,
    new_secret,
    secret_in,
    set_cookie,
)

EXPIRES = datetime(2026, 11, 28, 12, tzinfo=UTC)


@pytest.mark.parametrize("secure", [True, False])
def test_a_cookie_comes_back(secure: bool) -> None:
    secret = new_secret()
    header = set_cookie(secret, EXPIRES, secure=secure)
    assert secret_in(header.partition(";")[0], secure=secure) == secret
    assert secret_in(f"a=b; {header.partition(';')[0]}; c=d", secure=secure) == secret
    assert "Expires=Sat, 28 Nov 2026 12:00:00 GMT" in header
    assert {"Path=/", "HttpOnly", "SameSite=Strict"} <= set(header.split("; "))
    assert ("; Secure" in header) == secure
    assert "Domain" not in header


def test_the_name_says_whether_it_came_over_tls() -> None:
    assert (name_of(secure=True), name_of(secure=False)) == (SECURE_NAME, PLAIN_NAME)
    assert SECURE_NAME.startswith("__Host-")
    assert secret_in(f"{PLAIN_NAME}=x", secure=True) is None, "a cookie that was set without TLS counts for nothing"


def test_clearing_names_the_same_cookie() -> None:
    assert clear_cookie(secure=True).startswith(f"{SECURE_NAME}=;")
    assert "1970" in clear_cookie(secure=False)


@given(st.text(max_size=60))
def test_anything_may_be_sent(header: str) -> None:
    assert secret_in(header, secure=True) is None or SECURE_NAME in header


def test_the_second_secret_belongs_to_one_session() -> None:
    secret, other = new_secret(), new_secret()
    assert csrf_token(secret) == csrf_token(secret) != csrf_token(other)
    assert secret not in csrf_token(secret)
