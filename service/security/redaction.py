"""Takes secrets out of text that is written down: what looks like a token of ours, and passwords in addresses.

Nothing of ours logs a secret on purpose. But paths are whatever a client sends, and libraries put addresses into their
errors.
"""

import re

from service.security.credentials import PREFIX

_LETTER = rf"(?:(?!{PREFIX})[0-9A-Za-z])"
# Of a token; another one may begin right behind what only looks like one.
SECRETS = re.compile(rf"(?P<token>{PREFIX}{_LETTER}{{8}}){_LETTER}+|(?P<scheme>[a-z][a-z0-9+.-]*://)[^/\s@'\"]*@")
"""A token, of which the beginning says which it is, and the part of an address that says who asks."""


def redact(text: str) -> str:
    """The text with `…` in place of secrets."""
    return SECRETS.sub(lambda found: f"{found['token']}…" if found["token"] else f"{found['scheme']}…@", text)
