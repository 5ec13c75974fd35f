"""Code in answers that are no Markdown as asked: in tags, in JSON, without marks, in typographic characters.

Each reading writes the answer anew, with its code in fences. It is tried only if the answer as it is has no candidate.
"""

import html
import json
import re
import textwrap
from collections.abc import Iterator

from service.emitters.llm.fences import fences, marks_for
from service.operators.sources import parse

DEEPEST = 6
"""Maximum depth of JSON that is searched for code."""
LONGEST = 65_536
"""Maximum characters of a part that may be code: the size of the longest candidate."""
PARTS = 64
"""Maximum number of parts of an answer that are looked at."""

_TYPOGRAPHY = str.maketrans(
    {
        **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff\u00ad"),
        **dict.fromkeys("\u00a0\u2007\u202f\u3000", " "),
        **dict.fromkeys("\u2018\u2019", "'"),
        **dict.fromkeys("\u201c\u201d", '"'),
        **dict.fromkeys("\u2028\u2029\x85\r", "\n"),
        **dict.fromkeys("\u2010\u2011\u2012\u2013\u2212", "-"),
    }
)
"""Characters that look like others: without width, blanks, quotes, line ends and hyphens."""
_ESCAPED = re.compile(r"&(?:lt|gt|amp|quot|#\d+);")
_LATE_MARKS = re.compile(r"```(?:python|py)?[ \t]*\Z")
"""Fence at the end of a line; behind a text it opens a block, too."""
_TAG = re.compile(
    r"^[ \t]*<[^<>\n]{1,100}>[ \t]*$|</?[\w:=.-]{1,40}>|<!\[CDATA\[|\]\]>"
    r"|<\|[^<>|\n]{1,60}\|>|<\uff5c[^<>\uff5c\n]{1,60}\uff5c>|\[(?:TOOL_CALLS|ARGS|CALL_ID)\]",
    re.MULTILINE,
)
"""Tag of XML on a line for itself, one without attributes anywhere, or a special token around calls of tools."""
_CODE_LINE = re.compile(r"^([ \t]*)(?:import [\w.]+|from [\w.]+ import |@\w|def \w|class \w|\"\"\")", re.MULTILINE)
"""First line of code."""
_NO_CODE_LINE = re.compile(r"\A\s*(?:[%!].*|[\w./-]+\.py:?)[ \t]*\n")
"""Line in front of code that is none: a command of a notebook, or the name of a file."""


def is_code(text: str) -> bool:
    """Return True if a text is Python that does something: JSON and single words are Python too."""
    try:
        module = parse(text)
    except SyntaxError:
        return False
    return any(type(item).__name__ in ("FunctionDef", "ClassDef", "Import", "ImportFrom") for item in module.body)


def readings(text: str) -> Iterator[str]:
    """Write an answer in other ways, each with its code in fences; the strictest reading comes first."""
    for whole in dict.fromkeys((text, plain(text))):
        if whole != text:
            yield whole
        for parts in (_in_json(whole), _in_tags(whole), _within_marks(whole), _bare(whole)):
            code = [part for part in (_NO_CODE_LINE.sub("", each) for each in parts) if _is_part(part)]
            if code:
                yield "\n\n".join(_fenced(part) if is_code(part) else part for part in code)


def plain(text: str) -> str:
    """Write a text in the characters that Python knows: no typographic quotes, no HTML. Fences begin lines."""
    text = (html.unescape(text) if _ESCAPED.search(text) else text).translate(_TYPOGRAPHY)
    return "\n".join(_with_own_line(line) if "```" in line else line for line in text.split("\n"))


def _with_own_line(line: str) -> str:
    """Give a fence behind a text a line of its own."""
    found = _LATE_MARKS.search(line)
    head = line[: found.start()] if found else ""
    return f"{head}\n{line[len(head) :]}" if head.strip() and "`" not in head else line


def _is_part(text: str) -> bool:
    return len(text) <= LONGEST and (_has_marks(text) or is_code(text))


def _has_marks(text: str) -> bool:
    return bool(fences(text)) or "<<<<<<<" in text


def _fenced(code: str) -> str:
    marks = marks_for(code)
    return f"{marks}python\n{code}\n{marks}"


def _in_json(text: str) -> list[str]:
    """Return the texts of several lines in the JSON of an answer: the whole of it, or in blocks or tags."""
    places = [text, *(block.text for block in fences(text)), *_TAG.split(text, PARTS)]
    return list(dict.fromkeys(said for place in places[:PARTS] for said in _strings(_parsed(place))))


def _strings(value: object, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        inner = _parsed(value)
        if inner is not None:
            yield from _strings(inner, depth + 1)
        elif "\n" in value:
            yield value
    elif isinstance(value, dict | list) and depth < DEEPEST:
        for item in value.values() if isinstance(value, dict) else value:
            yield from _strings(item, depth + 1)


def _parsed(text: str) -> object:
    """Return the JSON object, array or text that a text is; None if it is none."""
    if not text.lstrip().startswith(("{", "[", '"')):
        return None
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None


def _in_tags(text: str) -> list[str]:
    parts = _TAG.split(text, PARTS)
    return parts if len(parts) > 1 else []


def _within_marks(text: str) -> list[str]:
    """Return each block without a line in front of its code, or the text between the first and the last mark."""
    blocks = [block.text for block in fences(text)]
    lines = text.split("\n")
    marks = [number for number, line in enumerate(lines) if line.startswith(("```", "~~~"))]
    whole = ["\n".join(lines[marks[0] + 1 : marks[-1]])] if len(marks) > 2 else []
    return whole if whole and _is_part(whole[0]) else blocks


def _bare(text: str) -> list[str]:
    """Return code without marks: from its first line to the end of the text, or to its last line that is indented."""
    first = _CODE_LINE.search(text)
    if first is None:
        return []
    lines = text[first.start() :].split("\n")
    if first[1]:
        last = next((n for n, line in enumerate(lines) if line.strip() and not line.startswith(first[1])), len(lines))
        return [textwrap.dedent("\n".join(lines[:last]))]
    last = max((n for n, line in enumerate(lines) if line.startswith((" ", "\t", ")", "]", "}"))), default=0)
    whole, shorter = "\n".join(lines), "\n".join(lines[: last + 1])
    return [whole if len(whole) <= LONGEST and is_code(whole) else shorter]
