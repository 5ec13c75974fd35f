"""Session cookies, and the CSRF tokens derived from them."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from http.cookies import CookieError, SimpleCookie

SECRET_BYTES = 32
IDLE = timedelta(hours=8)
"""Maximum idle time of a session: a working day, so that a search can be watched without logging in again."""
LONGEST = timedelta(days=7)
"""Maximum age of a session, used or not."""
SECURE_NAME, PLAIN_NAME = "__Host-reef", "reef"
"""Names of the cookie. Browsers accept the first over TLS and from this exact host only (RFC 6265bis, 4.1.3.2)."""
CSRF_KEY = b"kernelreef csrf"
"""Key that separates this use of a session's secret from others."""


def new_secret() -> str:
    """Draw a secret for a new session."""
    return secrets.token_urlsafe(SECRET_BYTES)


def csrf_token(secret: str) -> str:
    """Return the token that state-changing requests of a session must carry besides its cookie.

    It is derived one-way from the session's secret, so nothing more is stored.
    """
    return hmac.new(secret.encode(), CSRF_KEY, hashlib.sha256).hexdigest()


def name_of(*, secure: bool) -> str:
    """Return the cookie's name with or without TLS."""
    return SECURE_NAME if secure else PLAIN_NAME


def secret_in(header: str, *, secure: bool) -> str | None:
    """Return the session's secret in a `Cookie` header; None if there is none."""
    try:
        found = SimpleCookie(header).get(name_of(secure=secure))
    except CookieError:
        return None
    return found.value if found else None


def set_cookie(secret: str, expires_at: datetime, *, secure: bool) -> str:
    """Return the `Set-Cookie` header of a new session; scripts and other sites cannot use the cookie."""
    return _cookie(secret, expires_at.strftime("%a, %d %b %Y %H:%M:%S GMT"), secure)


def clear_cookie(*, secure: bool) -> str:
    """Return the `Set-Cookie` header that ends a session."""
    return _cookie("", "Thu, 01 Jan 1970 00:00:00 GMT", secure)


def _cookie(value: str, expires: str, secure: bool) -> str:
    parts = [f"{name_of(secure=secure)}={value}", f"Expires={expires}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
