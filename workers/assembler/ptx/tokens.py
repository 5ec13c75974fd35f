"""Tokens of PTX text.

The text is hostile. Anything that is no token is refused rather than skipped, because the assembler might read it
differently. Comments, spaces and debug sections are dropped; the assembler gets text printed from the tokens.
"""

import re
from enum import StrEnum
from typing import NamedTuple, NoReturn

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


class TokenCursor:
    """Cursor over the tokens of a text.

    Attributes:
        next: The next token; an empty mark at the end.
        line: Candidate's line in the last `.loc`, if it is in the candidate's own file.
    """

    def __init__(self, text: str) -> None:
        """Start before the first token.

        Raises:
            AssemblyRefused: If the text does not split into tokens.
        """
        self._text = text
        self._tokens = iter([*tokenize(text), PtxToken(TokenKind.MARK, "", len(text))])
        self._home: str | None = None
        self.next = next(self._tokens)
        self.line: int | None = None

    @property
    def done(self) -> bool:
        """True if all tokens are taken."""
        return not self.next.text

    def take(self) -> PtxToken:
        """Step over the next token.

        Raises:
            AssemblyRefused: At the end.
        """
        token = self.next
        if not token.text:
            self.fail("a statement's end")
        self.next = next(self._tokens)
        return token

    def accept(self, text: str) -> bool:
        """Step over the next token if it has this text. Returns True if it does."""
        if self.next.text != text:
            return False
        self.next = next(self._tokens)
        return True

    def expect(self, text: str) -> None:
        """Step over a token that must have this text.

        Raises:
            AssemblyRefused: If it has another text.
        """
        if not self.accept(text):
            self.fail(f"'{text}'")

    def take_kind(self, kind: TokenKind) -> str:
        """Step over a token of a kind and return its text.

        Raises:
            AssemblyRefused: If it is of another kind.
        """
        if self.next.kind is not kind:
            self.fail(f"a {kind.value}")
        return self.take().text

    def take_integer(self) -> int:
        """Step over a whole number.

        Raises:
            AssemblyRefused: If the token is no whole number.
        """
        text = self.take_kind(TokenKind.NUMBER)
        if not text.isdigit() or len(text) > 9:
            self.fail("a whole number")
        return int(text)

    def skip_location(self) -> None:
        """Read the rest of a `.loc`: file, line, column, and the place where it was inlined."""
        self.line = self._located()
        if not self.accept(","):
            return
        self.expect("function_name")
        self.take_kind(TokenKind.WORD)
        if self.accept("+"):
            self.take_integer()
        self.expect(",")
        self.expect("inlined_at")
        outer = self._located()
        self.line = self.line if self.line is not None else outer

    def _located(self) -> int | None:
        source, line, _ = self.take_kind(TokenKind.NUMBER), self.take_integer(), self.take_integer()
        self._home = self._home or source
        return line if source == self._home else None

    def fail(self, wanted: str) -> NoReturn:
        """Refuse the text at this token.

        Raises:
            AssemblyRefused: Always.
        """
        text, line = self.next.text[:40], line_of(self._text, self.next.offset)
        found = f"{text!r} on its line {line}" if text else "its end"
        raise AssemblyRefused(f"the assembly does not parse: expected {wanted}, found {found}", self.line)
