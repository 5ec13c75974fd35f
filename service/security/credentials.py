"""What an API token looks like: `reef_`, its id, its secret and a checksum, in letters and digits alone.

The prefix and the checksum let scanners of source code and logs recognise a leaked token without asking anybody, and
let us refuse a mistyped one without asking the database. The id finds the token's row, so that its secret is compared
in constant time instead of being searched for.
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
"""As many as the digest has: guessing the secret is no easier than guessing the digest."""
DIGITS = string.digits + string.ascii_uppercase + string.ascii_lowercase
ID_DIGITS, SECRET_DIGITS, SUM_DIGITS = 22, 43, 6
"""Digits of base 62 that 128 bits, 256 bits and 32 bits need at most."""
PATTERN = re.compile(rf"{PREFIX}([{DIGITS}]{{{ID_DIGITS}}})([{DIGITS}]{{{SECRET_DIGITS}}})([{DIGITS}]{{{SUM_DIGITS}}})")


@dataclass(frozen=True)
class PresentedToken:
    """A token as it was shown: which it claims to be, and its secret."""

    id: str
    secret: str = field(repr=False)

    def matches(self, digest: str) -> bool:
        """Whether the secret has this digest; takes the same time either way."""
        return hmac.compare_digest(digest_of(self.secret), digest)


def mint(id: str) -> tuple[str, str]:
    """A new token for an id.

    Returns:
        The token, to be shown once, and the digest of its secret, to be kept.
    """
    secret = _written(secrets.randbits(SECRET_BITS), SECRET_DIGITS)
    text = PREFIX + _written(UUID(id).int, ID_DIGITS) + secret
    return text + _checksum(text), digest_of(secret)


def read(text: str) -> PresentedToken | None:
    """A token as it was sent; None if it cannot be one of ours."""
    found = PATTERN.fullmatch(text)
    if found is None or _checksum(text[:-SUM_DIGITS]) != found[3]:
        return None
    number = _value(found[1])
    return PresentedToken(str(UUID(int=number)), found[2]) if number < 2**128 else None


def digest_of(secret: str) -> str:
    """SHA-256 of a secret, in hexadecimal.

    A slow hash with a salt protects passwords, of which there are few likely ones. Our secrets are 256 random bits: no
    list of likely ones exists, so a fast hash gives nothing away, and a request costs no time.
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
