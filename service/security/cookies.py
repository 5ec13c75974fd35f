"""What a session's cookie holds, and the second secret that shows a form came from our own pages."""

import hashlib
import hmac
import secrets
from datetime import datetime, timedelta
from http.cookies import CookieError, SimpleCookie

SECRET_BYTES = 32
IDLE = timedelta(hours=8)
"""Unused for so long a session ends: a working day, so that a search may be watched without logging in again."""
LONGEST = timedelta(days=7)
"""After which it ends, used or not."""
SECURE_NAME, PLAIN_NAME = "__Host-reef", "reef"
"""Names of the cookie. Browsers take the first only over TLS and from this very host (RFC 6265bis, 4.1.3.2)."""
CSRF_KEY = b"kernelreef csrf"
"""Keeps this use of a session's secret apart from any other."""


def new_secret() -> str:
    """A secret for a new session."""
    return secrets.token_urlsafe(SECRET_BYTES)


def csrf_token(secret: str) -> str:
    """What state-changing requests of a session must carry besides its cookie.

    It is made from the session's secret, so nothing more is stored, and it does not lead back to it.
    """
    return hmac.new(secret.encode(), CSRF_KEY, hashlib.sha256).hexdigest()


def name_of(*, secure: bool) -> str:
    """The cookie's name, with TLS and without."""
    return SECURE_NAME if secure else PLAIN_NAME


def secret_in(header: str, *, secure: bool) -> str | None:
    """The session's secret in a `Cookie` header, None if there is none."""
    try:
        found = SimpleCookie(header).get(name_of(secure=secure))
    except CookieError:
        return None
    return found.value if found else None


def set_cookie(secret: str, expires_at: datetime, *, secure: bool) -> str:
    """The `Set-Cookie` header that begins a session: no script sees the cookie, no other site can have it sent."""
    return _cookie(secret, expires_at.strftime("%a, %d %b %Y %H:%M:%S GMT"), secure)


def clear_cookie(*, secure: bool) -> str:
    """The `Set-Cookie` header that ends a session."""
    return _cookie("", "Thu, 01 Jan 1970 00:00:00 GMT", secure)


def _cookie(value: str, expires: str, secure: bool) -> str:
    parts = [f"{name_of(secure=secure)}={value}", f"Expires={expires}", "Path=/", "HttpOnly", "SameSite=Strict"]
    return "; ".join([*parts, "Secure"] if secure else parts)
