"""Fenced blocks of a text in Markdown, as CommonMark has them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

_OPENING = re.compile(r"^ {0,3}(?P<marks>`{3,}|~{3,})(?P<word>.*)$")


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


def fences(text: str) -> list[FencedBlock]:
    """Return the blocks of a text in order. One that never closes reaches to the end."""
    found: list[FencedBlock] = []
    above, lines = "", iter(text.split("\n"))
    for line in lines:
        opening = _opening(line)
        if opening is None:
            above = line if line.strip() else above
            continue
        inside, closed = _inside(lines, opening["marks"])
        found.append(FencedBlock(opening["word"].strip(), "\n".join(inside), above.strip(), closed))
        above = ""
    return found


def marks_for(text: str) -> str:
    """Return backticks for a fence that no line of the text can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    return "`" * max(3, longest + 1)


def _opening(line: str) -> re.Match[str] | None:
    found = _OPENING.match(line)
    return None if found is None or ("`" in found["marks"] and "`" in found["word"]) else found


def _inside(lines: Iterator[str], marks: str) -> tuple[list[str], bool]:
    """Read lines up to the closing one, which has at least as many of the same marks and at most three spaces."""
    closing = re.compile(rf"^ {{0,3}}{re.escape(marks[0])}{{{len(marks)},}}[ \t]*$")
    inside: list[str] = []
    for line in lines:
        if closing.match(line):
            return inside, True
        inside.append(line)
    return inside, False
