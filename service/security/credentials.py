"""Format of API tokens: `reef_`, id, secret and checksum, in letters and digits only.

Prefix and checksum let scanners recognise a leaked token offline, and let the service refuse a mistyped one without
the database. The id finds the token's row, so that the secret is compared in constant time.
"""

import hashlib
import hmac
import re
import secrets
import string
import zlib
from dataclasses import dataclass, field
from uuid import UUID

PREFIX = "reef_"
SECRET_BITS = 256
"""Bits of a secret, as many as its digest has: guessing the secret is no easier than guessing the digest."""
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
ID_DIGITS, SECRET_DIGITS, SUM_DIGITS = 22, 43, 6
"""Base-62 digits that 128, 256 and 32 bits need at most."""
PATTERN = re.compile(rf"{PREFIX}([{DIGITS}]{{{ID_DIGITS}}})([{DIGITS}]{{{SECRET_DIGITS}}})([{DIGITS}]{{{SUM_DIGITS}}})")


@dataclass(frozen=True)
class PresentedToken:
    """Token from a request: its claimed id, and its secret."""

    id: str
    secret: str = field(repr=False)

    def matches(self, digest: str) -> bool:
        """Return True if the secret has this digest, in constant time."""
        return hmac.compare_digest(digest_of(self.secret), digest)


def mint(id: str) -> tuple[str, str]:
    """Create a token for an id.

    Returns:
        The token's text, to show once, and the digest of its secret, to store.
    """
    secret = _written(secrets.randbits(SECRET_BITS), SECRET_DIGITS)
    text = PREFIX + _written(UUID(id).int, ID_DIGITS) + secret
    return text + _checksum(text), digest_of(secret)


def read(text: str) -> PresentedToken | None:
    """Parse a token from a request; None if its format or checksum is wrong."""
    found = PATTERN.fullmatch(text)
    if found is None or _checksum(text[:-SUM_DIGITS]) != found[3]:
        return None
    number = _value(found[1])
    return PresentedToken(str(UUID(int=number)), found[2]) if number < 2**128 else None


def digest_of(secret: str) -> str:
    """Return the SHA-256 of a secret, in hexadecimal.

    Passwords need a slow salted hash because likely ones can be listed. These secrets are 256 random bits, so a fast
    hash is as safe, and requests stay fast.
    """
    return hashlib.sha256(secret.encode()).hexdigest()


def _checksum(text: str) -> str:
    return _written(zlib.crc32(text.encode()), SUM_DIGITS)


def _written(number: int, width: int) -> str:
    digits = ""
    for _ in range(width):
        number, digit = divmod(number, len(DIGITS))
        digits = DIGITS[digit] + digits
    return digits


def _value(text: str) -> int:
    number = 0
    for digit in text:
        number = number * len(DIGITS) + DIGITS.index(digit)
    return number
