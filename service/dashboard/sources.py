"""Sources for the eye: highlighted line by line, and compared with an ancestor's. What comes out is escaped HTML."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

MOST_DIFF_LINES = 2000
"""Longest source that is compared: comparing takes the square of it, and its author decides how long it is."""
KEPT = 128
"""Highlighted sources kept in memory, a few times the 64 KiB that each may be long."""


@lru_cache(KEPT)
def highlighted(source: str) -> tuple[Markup, ...]:
    """Python source as HTML, one piece a line; the style sheet `source.css` knows the classes."""
    # Without these two the lexer drops empty lines at both ends, and line numbers would lie.
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    html = highlight(source, lexer, HtmlFormatter(nowrap=True))
    return tuple(Markup(line) for line in html.removesuffix("\n").split("\n"))


@dataclass(frozen=True)
class DiffLine:
    """One line of a comparison; `kind` is `add`, `del`, `same` or `place`."""

    kind: str
    text: str


def difference(old: str, new: str) -> tuple[DiffLine, ...] | None:
    """What changed between two sources, with three lines around; None if they are too long to compare here."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > MOST_DIFF_LINES:
        return None
    return tuple(_lines(before, after))


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    kinds = {"+": "add", "-": "del", "@": "place"}
    for number, line in enumerate(unified_diff(before, after, lineterm="")):
        # The first two lines name files, of which there are none.
        if number >= 2:
            yield DiffLine(kinds.get(line[:1], "same"), line)
