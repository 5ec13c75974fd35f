"""Search/replace edits: blocks of an answer that change a parent's text, marked as in a merge conflict.

A search text names whole lines. Blanks at the ends of lines and blank lines around it do not count, because models add
and drop them. Indentation counts.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from service.emitters.llm.answer_faults import AnswerFault, UnusableAnswer

_SEARCH = re.compile(r"^(?P<indent>[ \t]*)(?:<{5,9}|-{5,9}) ?(?:SEARCH|ORIGINAL|OLD|BEFORE|HEAD)\b.*$")
_DIVIDE = re.compile(r"^[ \t]*={5,9}[ \t]*$")
_REPLACE = re.compile(r"^[ \t]*(?:>{5,9}|\+{5,9})(?: ?\w.*)?$")
"""Marker lines of an edit, in their order: before the search text, before the replacement, and at the end."""
_HUNK = re.compile(r"^@@.*$")
_FILE_LINE = re.compile(r"^(?:--- |\+\+\+ |diff |index |\*\*\* |\\ ).*$")
"""Lines of a diff that are no lines of a file."""
OLD_NAMES = ("search", "old", "old_string", "old_str", "find", "original")
NEW_NAMES = ("replace", "replacement", "new", "new_string", "new_str", "updated")
"""Names of the two texts of an edit in JSON; coding agents have several."""
EDITS = 64
"""Maximum number of edits in one answer; larger changes should be a whole file."""
QUOTED = 160
"""Maximum number of characters of a search text that a reason quotes."""


@dataclass(frozen=True)
class SearchReplaceBlock:
    """One block: a text to search for, its replacement, and the blanks in front of its first marker."""

    search: str
    replacement: str
    indent: int = 0


def has_edits(text: str) -> bool:
    """Return True if an answer has edits."""
    return any(_SEARCH.match(line) for line in text.split("\n"))


def read_edits(text: str) -> list[SearchReplaceBlock]:
    """Return the edits of an answer, in order.

    Raises:
        UnusableAnswer: If one has no end, or there are too many.
    """
    lines, found = iter(text.split("\n")), []
    for line in lines:
        if marker := _SEARCH.match(line):
            search = _until(_DIVIDE, "=======", lines)
            found.append(SearchReplaceBlock(search, _until(_REPLACE, ">>>>>>> REPLACE", lines), len(marker["indent"])))
    return _bounded(found)


def json_edits(document: Mapping[str, Any]) -> list[SearchReplaceBlock]:
    """Return the edits of a JSON object: its `edits`, or itself, each with an old and a new text; none without these.

    Raises:
        UnusableAnswer: If there are too many.
    """
    given = document.get("edits", [document])
    listed = [item for item in given if isinstance(item, dict)] if isinstance(given, list) else []
    pairs = [[next((item[n] for n in names if n in item), None) for names in (OLD_NAMES, NEW_NAMES)] for item in listed]
    return _bounded(
        [SearchReplaceBlock(old, new) for old, new in pairs if isinstance(old, str) and isinstance(new, str)]
    )


def diff_edits(text: str, diffs: Sequence[str]) -> list[SearchReplaceBlock]:
    """Return the hunks of a diff in an answer as edits: what follows each line `@@`, or whole blocks marked as diffs.

    Raises:
        UnusableAnswer: If there are too many.
    """
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _HUNK.match(line)]
    hunks = [lines[start + 1 :] for start in starts[: EDITS + 1]] or [diff.split("\n") for diff in diffs]
    return _bounded([hunk for each in hunks if (hunk := _hunk(each)) is not None])


def _hunk(lines: Sequence[str]) -> SearchReplaceBlock | None:
    """Return the first hunk of some lines as an edit; None if it changes nothing."""
    old, new = list[str](), list[str]()
    for line in lines:
        if _FILE_LINE.match(line):
            if old or new:
                break
            continue
        if line[:1] not in ("", " ", "+", "-", "\t"):
            break
        if line[:1] != "+":
            old.append(line[1:] if line[:1] in (" ", "-") else line)
        if line[:1] != "-":
            new.append(line[1:] if line[:1] in (" ", "+") else line)
    return None if old == new else SearchReplaceBlock("\n".join(old), "\n".join(new))


def apply(edits: list[SearchReplaceBlock], parent: str) -> str:
    """Apply all edits to the parent's text, each to the result of the one before.

    Raises:
        UnusableAnswer: If a search text does not occur exactly once. No edit is applied then.
    """
    text = parent = parent.replace("\r\n", "\n")
    for number, edit in enumerate(edits, start=1):
        found = _matches(edit, text)
        if len(found) != 1:
            raise UnusableAnswer(*_fault(number, edit, len(found), text, parent))
        text = found[0]
    return text


def _matches(edit: SearchReplaceBlock, text: str) -> list[str]:
    """Return the text after an edit, once for each place where it could apply: by the strictest reading that fits."""
    search, replacement = edit.search.replace("\r\n", "\n"), edit.replacement.replace("\r\n", "\n")
    readings = [(search, replacement)]
    if edit.indent:
        readings.append((_dedented(search, edit.indent), _dedented(replacement, edit.indent)))
    if len(several := _within_line(search, replacement, text)) > 1:
        return several
    for wanted, instead in readings:
        trimmed = _trimmed(wanted, instead)
        for lines, other in ((wanted, instead), trimmed):
            if lines.strip() and (found := _by_lines(lines.split("\n"), other, text.split("\n"))):
                return found
        if found := _within_line(*trimmed, text):
            return found
    return []


def _by_lines(wanted: Sequence[str], replacement: str, lines: Sequence[str]) -> list[str]:
    """Return the text after replacing whole lines, for each place. Blanks at the ends of lines do not count."""
    wanted, bare = [line.rstrip() for line in wanted], [line.rstrip() for line in lines]
    size = len(wanted)
    places = [start for start in range(len(lines) - size + 1) if bare[start : start + size] == wanted]
    return ["\n".join([*lines[:start], replacement, *lines[start + size :]]) for start in places]


def _within_line(search: str, replacement: str, text: str) -> list[str]:
    """Return the text after replacing a part of a line or of lines, for each place, overlaps included."""
    found, start = [], text.find(search) if search.strip() else -1
    while start >= 0:
        found.append(text[:start] + replacement + text[start + len(search) :])
        start = text.find(search, start + 1)
    return found


def _trimmed(search: str, replacement: str) -> tuple[str, str]:
    """Remove blank lines around a search text, and as many, if it has them, around its replacement."""
    wanted, instead = search.split("\n"), replacement.split("\n")
    for end in (0, -1):
        while len(wanted) > 1 and not wanted[end].strip():
            wanted.pop(end)
            if len(instead) > 1 and not instead[end].strip():
                instead.pop(end)
    return "\n".join(wanted), "\n".join(instead)


def _dedented(text: str, blanks: int) -> str:
    return "\n".join(line[min(blanks, len(line) - len(line.lstrip(" \t"))) :] for line in text.split("\n"))


def _bounded(found: list[SearchReplaceBlock]) -> list[SearchReplaceBlock]:
    if len(found) > EDITS:
        raise UnusableAnswer(AnswerFault.TOO_LONG, f"the answer has {len(found)} edits; {EDITS} are allowed")
    return found


def _until(marker: re.Pattern[str], shown: str, lines: Iterator[str]) -> str:
    inside: list[str] = []
    for line in lines:
        if marker.match(line):
            return "\n".join(inside)
        if _SEARCH.match(line):
            break
        inside.append(line)
    raise UnusableAnswer(AnswerFault.TRUNCATED, f"an edit lacks its line '{shown}'")


def _fault(number: int, edit: SearchReplaceBlock, count: int, text: str, parent: str) -> tuple[AnswerFault, str]:
    """Describe why an edit does not apply."""
    word = AnswerFault.EDIT_AMBIGUOUS if count else AnswerFault.EDIT_NOT_FOUND
    where = ""
    if not count and _matches(edit, parent):
        where = " after the earlier edits"
    elif not count and _flat(edit.search) and _flat(edit.search) in _flat(text):
        where = ", but with another indentation"
    return word, f"the search text of edit {number} occurs {count} times in the parent{where}: {_quote(edit)}"


def _flat(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip("\n").split("\n"))


def _quote(edit: SearchReplaceBlock) -> str:
    first = edit.search.strip("\n")
    return repr(first[:QUOTED] + ("…" if len(first) > QUOTED else ""))
