"""Sources as HTML: highlighted line by line, and compared with an ancestor's. All text is escaped."""

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher, unified_diff
from functools import lru_cache
from itertools import zip_longest

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


@dataclass(frozen=True)
class PairedLine:
    """A line of two sources side by side; None where a side has no such line. Numbers begin at 1."""

    left: str | None
    left_number: int | None
    right: str | None
    right_number: int | None
    changed: bool


def side_by_side(left: str, right: str) -> tuple[PairedLine, ...] | None:
    """Align two sources line by line. Returns None if one of them is too long."""
    before, after = left.split("\n"), right.split("\n")
    if max(len(before), len(after)) > MOST_DIFF_LINES:
        return None
    found: list[PairedLine] = []
    for kind, start, end, other_start, other_end in SequenceMatcher(None, before, after, autojunk=False).get_opcodes():
        for here, there in zip_longest(range(start, end), range(other_start, other_end)):
            found.append(
                PairedLine(
                    left=None if here is None else before[here],
                    left_number=None if here is None else here + 1,
                    right=None if there is None else after[there],
                    right_number=None if there is None else there + 1,
                    changed=kind != "equal",
                )
            )
    return tuple(found)


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
