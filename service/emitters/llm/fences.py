"""Fenced blocks of a text in Markdown, as CommonMark has them.

Blocks within lists are indented deeper; they are found only on request. Their lines lose the blanks of their opening.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_OPENING = re.compile(r"^(?P<indent>[ \t]*)(?P<marks>`{3,}|~{3,})(?P<word>.*)$")


@dataclass(frozen=True)
class FencedBlock:
    """One block.

    Attributes:
        word: Info string after the opening marks, such as `python`.
        text: The lines inside.
        above: The nearest line above that is not blank; empty at the start.
        closed: True if it has an end.
    """

    word: str
    text: str
    above: str
    closed: bool


def fences(text: str, most_blanks: int = 3) -> list[FencedBlock]:
    """Return the blocks of a text in order, with up to so many blanks before them.

    One that never closes reaches to the end.
    """
    lines = text.split("\n")
    found: list[FencedBlock] = []
    behind = 0
    for first, last, opening, closed in _places(lines, most_blanks):
        above = next((line.strip() for line in reversed(lines[behind:first]) if line.strip()), "")
        inside = [_dedented(line, len(opening["indent"])) for line in lines[first + 1 : last]]
        found.append(FencedBlock(opening["word"].strip(), "\n".join(inside), above, closed))
        behind = last + 1
    return found


def spans(text: str) -> list[tuple[int, int]]:
    """Return the start and end of each block within a text, its marks included."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    return [(starts[first], starts[min(last + 1, len(lines))]) for first, last, *_ in _places(lines)]


def marks_for(text: str) -> str:
    """Return backticks for a fence that no line of the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _places(lines: Sequence[str], most_blanks: int = 3) -> Iterator[tuple[int, int, re.Match[str], bool]]:
    """Find the blocks: the line that opens each, the line that closes it, its opening, and True if it is closed."""
    first = 0
    while first < len(lines):
        opening = _opening(lines[first], most_blanks)
        if opening is not None:
            last = _closing(lines, first, opening)
            yield first, last, opening, last < len(lines)
            first = last
        first += 1


def _opening(line: str, most_blanks: int) -> re.Match[str] | None:
    found = _OPENING.match(line)
    if found is None or _width(found["indent"]) > most_blanks or ("`" in found["marks"] and "`" in found["word"]):
        return None
    return found


def _closing(lines: Sequence[str], first: int, opening: re.Match[str]) -> int:
    """Return the closing line: as many of the same marks at least, at most three blanks further in than the opening."""
    marks, most = opening["marks"], _width(opening["indent"]) + 3
    closing = re.compile(rf"^([ \t]*){re.escape(marks[0])}{{{len(marks)},}}[ \t]*$")
    return next(
        (
            number
            for number in range(first + 1, len(lines))
            if (found := closing.match(lines[number])) and _width(found[1]) <= most
        ),
        len(lines),
    )


def _width(indent: str) -> int:
    """Return the columns of some blanks; a tab reaches to the next multiple of four."""
    return len(indent.expandtabs(4))


def _dedented(line: str, blanks: int) -> str:
    """Remove up to so many blanks from the start of a line."""
    return line[min(blanks, len(line) - len(line.lstrip(" \t"))) :]
