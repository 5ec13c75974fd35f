"""Parsed form of a PTX module: plain frozen data, no rules."""

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class PtxVariable:
    """A variable of the module, or local memory, registers or call parameters in a function.

    Attributes:
        space: `global`, `const`, `shared`, `local`, `param` or `reg`.
        type: Element type, such as `b8`.
        name: Its name; for counted registers, the prefix.
        linkage: `extern`, `visible`, `weak`, `common` or empty.
        attributes: All other words of its declaration, such as `("align 4",)`.
        extents: Array sizes as written, empty for a scalar; an empty string is a size left open.
        values: Initial values as written, or None without an initialiser.
        count: Number of registers in `%r<count>`; 0 for a single name.
        line: Candidate's line, where known.
    """

    space: str
    type: str
    name: str
    linkage: str = ""
    attributes: tuple[str, ...] = ()
    extents: tuple[str, ...] = ()
    values: tuple[str, ...] | None = None
    count: int = 0
    line: int | None = None


@dataclass(frozen=True, slots=True)
class PtxInstruction:
    """One instruction: `@!%p1 ld.global.b32 %r1, [%rd1+4];`.

    Attributes:
        opcode: With all modifiers, `ld.global.b32`.
        operands: Their tokens, split at commas outside brackets.
        guard: `%p1`, `!%p1` or empty.
        line: Candidate's line, where known.
    """

    opcode: str
    operands: tuple[tuple[str, ...], ...] = ()
    guard: tuple[str, ...] = ()
    line: int | None = None

    @property
    def head(self) -> str:
        """The instruction without modifiers."""
        return self.opcode.partition(".")[0]

    @property
    def modifiers(self) -> tuple[str, ...]:
        """Everything after the head, split at dots."""
        return tuple(self.opcode.split(".")[1:])


@dataclass(frozen=True, slots=True)
class PtxLabel:
    """A target of jumps, or a list of jump targets (`.branchtargets`) if `targets` is set."""

    name: str
    targets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PtxPragma:
    """A hint to the assembler, without its quotes."""

    text: str


@dataclass(frozen=True, slots=True)
class PtxBlock:
    """Statements in braces; names declared inside hide those outside."""

    statements: tuple["Statement", ...]

    def walk(self) -> Iterator["PtxVariable | PtxInstruction | PtxLabel | PtxPragma"]:
        """Yield all statements in order of the text, nested ones included."""
        for statement in self.statements:
            if isinstance(statement, PtxBlock):
                yield from statement.walk()
            else:
                yield statement


Statement = PtxVariable | PtxInstruction | PtxLabel | PtxPragma | PtxBlock


@dataclass(frozen=True, slots=True)
class PtxFunction:
    """A function or the entry; without a body it is a declaration.

    Attributes:
        name: As written.
        entry: True if a launch may start it.
        linkage: `extern`, `visible`, `weak` or empty.
        results: Result parameters.
        parameters: Its parameters in order.
        limits: Performance directives such as `{"reqntid": (128,)}`.
        body: Its statements, or None.
        line: Candidate's line of its first statement, where known.
    """

    name: str
    entry: bool = False
    linkage: str = ""
    results: tuple[PtxVariable, ...] = ()
    parameters: tuple[PtxVariable, ...] = ()
    limits: dict[str, tuple[int, ...]] = field(default_factory=dict)
    body: PtxBlock | None = None
    line: int | None = None

    @property
    def instructions(self) -> tuple[PtxInstruction, ...]:
        """All instructions in order of the text."""
        return tuple(item for item in self.body.walk() if isinstance(item, PtxInstruction)) if self.body else ()


@dataclass(frozen=True, slots=True)
class PtxModule:
    """One file of PTX."""

    version: str
    target: str
    address_bits: int
    variables: tuple[PtxVariable, ...]
    functions: tuple[PtxFunction, ...]
