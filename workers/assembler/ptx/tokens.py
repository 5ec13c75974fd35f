"""Tokens of PTX text.

The text is hostile. Anything that is no token is refused rather than skipped, because the assembler might read it
differently. Comments, spaces and debug sections are dropped; the assembler gets text printed from the tokens.
"""

import re
from enum import StrEnum
from typing import NamedTuple

from workers.assembler.refusal import AssemblyRefused


class TokenKind(StrEnum):
    """Kind of a token."""

    WORD = "word"
    """A name, a register or a dotted instruction, such as `ld.global.v4.b32`."""
    DIRECTIVE = "directive"
    NUMBER = "number"
    STRING = "string"
    MARK = "mark"


class PtxToken(NamedTuple):
    """One token, with its offset in the text."""

    kind: TokenKind
    text: str
    offset: int


# The forms are those of the PTX ISA, version 9.0, section 4 (syntax).
_PART = r"[A-Za-z0-9_$]+"
_SPACE = r"(?:[ \t\r\n]+|//[^\n]*|/\*(?s:.*?)\*/|\.section[ \t]+\.debug_[a-z]+\s*\{[^{}]*\})*"
_TOKEN = re.compile(
    rf"""
    (?:
      (?P<word>      [A-Za-z_$%][A-Za-z0-9_$]*(?:(?:\.|::){_PART})* )
    | (?P<mark>      [{{}}()\[\]<>,;:@!+\-|=*] )
    | (?P<number>    (?: 0[fF][0-9a-fA-F]{{8}} | 0[dD][0-9a-fA-F]{{16}} | 0[xX][0-9a-fA-F]+U? | 0[bB][01]+U?
                       | [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | [0-9]+U? ) (?![A-Za-z0-9_$%.]) )
    | (?P<directive> \.{_PART}(?:::{_PART})* )
    | (?P<string>    "[^"\\\r\n]*" )
    ) {_SPACE}
    """,
    re.VERBOSE,
)
_SKIPPED = re.compile(_SPACE)
_PRINTABLE = re.compile(r"[\t\r\n\x20-\x7e]*")
_KINDS = {kind.value: kind for kind in TokenKind}


def tokenize(text: str) -> list[PtxToken]:
    """Split PTX text into tokens.

    Raises:
        AssemblyRefused: If the text has a byte or a form that is no PTX.
    """
    printable = _PRINTABLE.match(text)
    if printable is None or printable.end() != len(text):
        at = printable.end() if printable else 0
        raise AssemblyRefused(f"the assembly has the character U+{ord(text[at]):04X}, which no compiler writes")
    tokens = []
    leading = _SKIPPED.match(text)
    position = leading.end() if leading else 0
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise AssemblyRefused(f"line {line_of(text, position)} of the assembly is no PTX: {text[position:][:40]!r}")
        kind = str(match.lastgroup)
        tokens.append(PtxToken(_KINDS[kind], match[kind], position))
        position = match.end()
    return tokens


def line_of(text: str, offset: int) -> int:
    """Return the line of an offset in the text, from 1."""
    return text.count("\n", 0, offset) + 1
