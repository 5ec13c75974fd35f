"""The parser's position in a text, with the few moves that it needs."""

from typing import NoReturn

from workers.assembler.ptx.tokens import PtxToken, TokenKind, line_of, tokenize
from workers.assembler.refusal import AssemblyRefused


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
