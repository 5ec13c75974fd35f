"""Redaction of secrets in log text: API tokens, and passwords in addresses.

The service logs no secret on purpose. But clients choose the paths that are logged, and libraries put addresses into
their errors.
"""

import re

from service.security.credentials import PREFIX

_LETTER = rf"(?:(?!{PREFIX})[0-9A-Za-z])"
# One character of a token; another token may start right behind a text that only looks like one.
SECRETS = re.compile(rf"(?P<token>{PREFIX}{_LETTER}{{8}}){_LETTER}+|(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s@'\"]*@")
"""Pattern of a token, whose beginning identifies it, and of the user and password in an address."""


def redact(text: str) -> str:
    """Replace secrets in a text by `…`."""
    return SECRETS.sub(lambda found: f"{found['token']}…" if found["token"] else f"{found['scheme']}…@", text)
