"""Tags: encoding of compile-time values that JSON lacks as texts of a plan.

A dtype of Triton's is `dtype:fp32`, one of torch's `torch:float32`, a jit function `function:name`, a layout of Gluon's
`layout:` with the text of its constructor. A text that would be read as one of these, or as a number, has `text:` in
front, so that it comes back as the same text.
"""

from workers.protocol.base import NON_FINITE

_TAGS = ("dtype", "torch", "function", "layout", "text")


def tagged(tag: str, name: str) -> str:
    """Return the text that encodes a dtype, a layout or a function of that name."""
    return f"{tag}:{name}"


def escaped(text: str) -> str:
    """Return the text that encodes a text."""
    return tagged("text", text) if text in NON_FINITE or untagged(text)[1] != text else text


def untagged(text: str) -> tuple[str, str]:
    """Split a text of a plan into its tag (`text` if it has none) and the name after it."""
    tag, colon, name = text.partition(":")
    return (tag, name) if colon and tag in _TAGS else ("text", text)
