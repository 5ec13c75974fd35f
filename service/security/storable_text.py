"""Texts that no database can hold, found before anything is done with them."""

import json
import re

UNKEPT = re.compile("[\0\ud800-\udfff]")
"""What no text in a database holds: NUL, and halves of characters."""
_ESCAPED = re.compile(rb"\\u(?:0000|[dD][89a-fA-F])")
"""How JSON writes them, and whole characters beyond the first 65,536; most bodies hold none, and are not read twice."""


def holds_unkept(body: bytes) -> bool:
    """Whether a text in JSON, which must not nest too deep, is one of these. What is no JSON is others' to refuse."""
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
