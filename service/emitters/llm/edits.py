"""Search/replace edits: blocks of an answer that change a parent's text, marked as in a merge conflict."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer

SEARCH, DIVIDE, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
"""Marker lines of an edit, in their order: before the search text, before the replacement, and at the end."""
EDITS = 64
"""Maximum number of edits in one answer; larger changes should be a whole file."""
QUOTED = 160
"""Maximum number of characters of a search text that a reason quotes."""


@dataclass(frozen=True)
class SearchReplaceBlock:
    """One block: a text to search for, and its replacement."""

    search: str
    replacement: str


def has_edits(text: str) -> bool:
    """Return True if an answer has edits."""
    return any(line.rstrip() == SEARCH for line in text.split("\n"))


def read_edits(text: str) -> list[SearchReplaceBlock]:
    """Return the edits of an answer, in order.

    Raises:
        UnusableAnswer: If one has no end, or there are too many.
    """
    lines, found = iter(text.split("\n")), []
    for line in lines:
        if line.rstrip() == SEARCH:
            found.append(SearchReplaceBlock(_until(DIVIDE, lines), _until(REPLACE, lines)))
    if len(found) > EDITS:
        raise UnusableAnswer(AnswerFault.TOO_LONG, f"the answer has {len(found)} edits; {EDITS} are allowed")
    return found


def apply(edits: list[SearchReplaceBlock], parent: str) -> str:
    """Apply all edits to the parent's text, each to the result of the one before.

    Raises:
        UnusableAnswer: If a search text does not occur exactly once. No edit is applied then.
    """
    text = parent.replace("\r\n", "\n")
    for number, edit in enumerate(edits, start=1):
        count = _occurrences(edit.search, text)
        if count != 1:
            word = AnswerFault.EDIT_AMBIGUOUS if count else AnswerFault.EDIT_NOT_FOUND
            where = " after the earlier edits" if not count and edit.search and edit.search in parent else ""
            raise UnusableAnswer(
                word, f"the search text of edit {number} occurs {count} times in the parent{where}: {_quote(edit)}"
            )
        text = text.replace(edit.search, edit.replacement)
    return text


def _until(marker: str, lines: Iterator[str]) -> str:
    inside: list[str] = []
    for line in lines:
        if line.rstrip() == marker:
            return "\n".join(inside)
        if line.rstrip() == SEARCH:
            break
        inside.append(line)
    raise UnusableAnswer(AnswerFault.TRUNCATED, f"an edit lacks its line '{marker}'")


def _occurrences(search: str, text: str) -> int:
    """Count a text in another, overlaps included; an empty text counts zero times."""
    count, start = 0, text.find(search) if search else -1
    while start >= 0:
        count, start = count + 1, text.find(search, start + 1)
    return count


def _quote(edit: SearchReplaceBlock) -> str:
    first = edit.search.strip("\n")
    return repr(first[:QUOTED] + ("…" if len(first) > QUOTED else ""))
