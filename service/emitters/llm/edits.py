"""Search/replace edits: blocks of an answer that change a parent's text, between lines as in a merge conflict."""

from collections.abc import Iterator
from dataclasses import dataclass

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer

SEARCH, DIVIDE, REPLACE = "<<<<<<< SEARCH", "=======", ">>>>>>> REPLACE"
"""Marker lines of an edit, in their order: what to look for, what stands there instead, the end."""
EDITS = 64
"""Most edits in one answer; who changes more had better write the file anew."""
QUOTED = 160
"""Characters of a search text that a reason quotes."""


@dataclass(frozen=True)
class SearchReplaceBlock:
    """One block: what to look for, and what to put in its place."""

    search: str
    replacement: str


def has_edits(text: str) -> bool:
    """Whether an answer is made of edits."""
    return any(line.rstrip() == SEARCH for line in text.split("\n"))


def read_edits(text: str) -> list[SearchReplaceBlock]:
    """The edits of an answer, in order.

    Raises:
        Unusable: If one has no end, or there are too many.
    """
    lines, found = iter(text.split("\n")), []
    for line in lines:
        if line.rstrip() == SEARCH:
            found.append(SearchReplaceBlock(_until(DIVIDE, lines), _until(REPLACE, lines)))
    if len(found) > EDITS:
        raise UnusableAnswer(AnswerFault.TOO_LONG, f"the answer has {len(found)} edits; {EDITS} are allowed")
    return found


def apply(edits: list[SearchReplaceBlock], parent: str) -> str:
    """The parent's text after all edits, each applied to what the one before left.

    Raises:
        Unusable: If a search text does not stand there exactly once. Nothing is applied in part.
    """
    text = parent.replace("\r\n", "\n")
    for number, edit in enumerate(edits, start=1):
        count = _occurrences(edit.search, text)
        if count != 1:
            word = AnswerFault.EDIT_AMBIGUOUS if count else AnswerFault.EDIT_NOT_FOUND
            where = f"{count} times" if count else "nowhere"
            again = " any more" if not count and edit.search and edit.search in parent else ""
            raise UnusableAnswer(
                word, f"the search text of edit {number} stands {where} in the parent{again}: {_quote(edit)}"
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
    """How often a text stands in another, overlaps included; an empty one stands nowhere."""
    count, start = 0, text.find(search) if search else -1
    while start >= 0:
        count, start = count + 1, text.find(search, start + 1)
    return count


def _quote(edit: SearchReplaceBlock) -> str:
    first = edit.search.strip("\n")
    return repr(first[:QUOTED] + ("…" if len(first) > QUOTED else ""))
