"""Check for text that no database can store, made before a request is processed."""

import json
import re

UNKEPT = re.compile("[\0\ud800-\udfff]")
"""Pattern of characters that no database can store: NUL, and lone surrogates."""
_ESCAPED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""Pattern of their JSON escapes, and of surrogate pairs; most bodies have none and are parsed only once."""


def holds_unkept(body: bytes) -> bool:
    """Return True if JSON, which must not nest too deep, has such text; False for text that is not JSON."""
    if _ESCAPED.search(body) is None:
        return False
    try:
        waiting = [json.loads(body)]
    except ValueError:
        return False
    while waiting:
        value = waiting.pop()
        if isinstance(value, str) and UNKEPT.search(value):
            return True
        if isinstance(value, dict):
            waiting += [*value, *value.values()]
        elif isinstance(value, list):
            waiting += value
    return False
