"""Sources as HTML: highlighted line by line, and compared with an ancestor's. All text is escaped."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import unified_diff
from functools import lru_cache

from markupsafe import Markup
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import PythonLexer

MOST_DIFF_LINES = 2000
"""Maximum number of lines to compare: the time grows with its square, and the author of a source sets its length."""
KEPT = 128
"""Maximum number of highlighted sources kept in memory, each a few times its source's 64 KiB at most."""


@lru_cache(KEPT)
def highlighted(source: str) -> tuple[Markup, ...]:
    """Highlight Python source as HTML, one item per line; `source.css` has the classes."""
    # Without these options the lexer drops empty lines at both ends, and line numbers would be wrong.
    lexer = PythonLexer(stripnl=False, ensurenl=False)
    html = highlight(source, lexer, HtmlFormatter(nowrap=True))
    return tuple(Markup(line) for line in html.removesuffix("\n").split("\n"))


@dataclass(frozen=True)
class DiffLine:
    """One line of a comparison; `kind` is `add`, `del`, `same` or `place`."""

    kind: str
    text: str


def difference(old: str, new: str) -> tuple[DiffLine, ...] | None:
    """Compare two sources, with three lines of context. Returns None if one of them is too long."""
    before, after = old.split("\n"), new.split("\n")
    if max(len(before), len(after)) > MOST_DIFF_LINES:
        return None
    return tuple(_lines(before, after))


def _lines(before: list[str], after: list[str]) -> Iterator[DiffLine]:
    kinds = {"+": "add", "-": "del", "@": "place"}
    for number, line in enumerate(unified_diff(before, after, lineterm="")):
        # The first two lines are file names, which are empty here.
        if number >= 2:
            yield DiffLine(kinds.get(line[:1], "same"), line)
