"""Limit on the nesting of JSON: parsers recurse, and fail or crash on text that is nested too deep."""

import re

DEEPEST = 64
"""Maximum levels; the deepest valid document, an operator's mutation report in a request, has fewer than ten."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""Pattern of a string, even an unterminated one; brackets in it do not count. It matches any text in linear time."""
MARK = b"."
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(text: bytes, deepest: int = DEEPEST) -> bool:
    """Return True if brackets are nested more than `deepest` levels, or are unbalanced.

    The text is not parsed: the innermost pairs are removed once per allowed level, and anything left is too deep. That
    takes a few passes in C, even over megabytes of brackets.
    """
    brackets = STRING.sub(b"", text).translate(None, NOT_BRACKETS)
    for _ in range(deepest):
        if not brackets:
            return False
        # The mark saves a pair that became innermost in this pass for the next one.
        brackets = brackets.replace(b"[]", MARK).replace(b"{}", MARK).translate(None, MARK)
    return bool(brackets)
