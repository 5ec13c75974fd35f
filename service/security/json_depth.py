"""Whether JSON is nested deeper than anybody means it to be: parsers recurse, and give up or crash on such text."""

import re

DEEPEST = 64
"""Our deepest document, an operator with a gate inside a request, has fewer than ten levels."""
STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
"""A string, ended or not: what is inside one opens nothing. Takes time in proportion to the text, whatever it is."""
MARK = b"."
NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))


def is_too_deep(text: bytes, deepest: int = DEEPEST) -> bool:
    """Whether brackets are nested more than `deepest` levels, or do not pair at all.

    Text is not parsed: what is left after taking away the innermost pairs as often as levels are allowed is too deep.
    That is a few passes in C, also over megabytes of brackets.
    """
    brackets = STRING.sub(b"", text).translate(None, NOT_BRACKETS)
    for _ in range(deepest):
        if not brackets:
            return False
        # The mark keeps a pair that has just become innermost for the next pass.
        brackets = brackets.replace(b"[]", MARK).replace(b"{}", MARK).translate(None, MARK)
    return bool(brackets)
