"""Parser of PTX: tokens to a `PtxModule`. It refuses text outside of the grammar; the rules are in `lint`."""

from workers.assembler.ptx.syntax import (
    PtxBlock,
    PtxFunction,
    PtxInstruction,
    PtxLabel,
    PtxModule,
    PtxPragma,
    PtxVariable,
    Statement,
)
from workers.assembler.ptx.tokens import TokenCursor, TokenKind
from workers.assembler.refusal import AssemblyRefused

_MAX_DEPTH = 16
"""Maximum depth of nested braces; Triton's inline assembly and call sequences nest two deep."""
_LOCAL_SPACES = (".reg", ".local", ".param", ".shared", ".global", ".const")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPERAND_MARKS = frozenset(",+-!|*")


def parse_block(cursor: TokenCursor, depth: int = 0) -> PtxBlock:
    """Parse statements in braces.

    Raises:
        AssemblyRefused: If they are no PTX, or nest deeper than any compiler writes.
    """
    if depth == _MAX_DEPTH:
        raise AssemblyRefused(f"the assembly nests blocks deeper than {_MAX_DEPTH}", cursor.line)
    cursor.expect("{")
    statements: list[Statement] = []
    while not cursor.accept("}"):
        if cursor.accept(".loc"):
            cursor.skip_location()
        elif cursor.next.text == "{":
            statements.append(parse_block(cursor, depth + 1))
        elif cursor.next.kind is TokenKind.DIRECTIVE:
            statements += _parse_directive(cursor)
        else:
            statements += _parse_statement(cursor)
    return PtxBlock(tuple(statements))


def _parse_directive(cursor: TokenCursor) -> list[Statement]:
    if cursor.accept(".pragma"):
        text = cursor.take_kind(TokenKind.STRING)[1:-1]
        cursor.expect(";")
        return [PtxPragma(text)]
    if cursor.next.text not in _LOCAL_SPACES:
        cursor.fail("an instruction")
    if cursor.next.text == ".reg":
        return _parse_registers(cursor)
    return [parse_variable(cursor, "")]


def _parse_registers(cursor: TokenCursor) -> list[Statement]:
    cursor.expect(".reg")
    attributes = (cursor.take().text[1:],) if cursor.next.text in (".v2", ".v4") else ()
    kind = cursor.take_kind(TokenKind.DIRECTIVE)[1:]
    registers: list[Statement] = []
    while not registers or cursor.accept(","):
        name, count = cursor.take_kind(TokenKind.WORD), 0
        if cursor.accept("<"):
            count = cursor.take_integer()
            cursor.expect(">")
        registers.append(PtxVariable("reg", kind, name, attributes=attributes, count=count))
    cursor.expect(";")
    return registers


def parse_variable(cursor: TokenCursor, linkage: str, terminated: bool = True) -> PtxVariable:
    """Parse one variable or parameter, `.param .align 4 .b8 name[16]`.

    Args:
        cursor: Position before the state space.
        linkage: Linkage that was read before it.
        terminated: True if a semicolon ends it (parameters have none).

    Raises:
        AssemblyRefused: If it is no variable.
    """
    space = cursor.take_kind(TokenKind.DIRECTIVE)[1:]
    words: list[str] = []
    while cursor.next.kind is TokenKind.DIRECTIVE:
        words.append(cursor.take().text[1:])
        if words[-1] == "align":
            words[-1] += f" {cursor.take_integer()}"
        elif words[-1] == "attribute":
            raise AssemblyRefused(
                "the assembly gives a variable an '.attribute' (managed or unified memory)", cursor.line
            )
    if not words:
        cursor.fail("a type")
    name = cursor.take_kind(TokenKind.WORD)
    extents = _parse_extents(cursor)
    values = _parse_values(cursor) if cursor.accept("=") else None
    if terminated:
        cursor.expect(";")
    kinds = [word for word in words if word not in ("ptr", "global") and not word.startswith("align")]
    if not kinds:
        cursor.fail("a type")
    attributes = tuple(word for word in words if word != kinds[0])
    return PtxVariable(space, kinds[0], name, linkage, attributes, extents, values, line=cursor.line)


def _parse_extents(cursor: TokenCursor) -> tuple[str, ...]:
    extents: list[str] = []
    while cursor.accept("["):
        extents.append("" if cursor.next.text == "]" else str(cursor.take_integer()))
        cursor.expect("]")
    return tuple(extents)


def _parse_values(cursor: TokenCursor) -> tuple[str, ...]:
    """Read an initialiser of plain numbers; addresses and nested lists are refused."""
    if not cursor.accept("{"):
        return (_parse_value(cursor),)
    values: list[str] = []
    while not cursor.accept("}"):
        if values:
            cursor.expect(",")
        values.append(_parse_value(cursor))
    return tuple(values)


def _parse_value(cursor: TokenCursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    return sign + cursor.take_kind(TokenKind.NUMBER)


def _parse_statement(cursor: TokenCursor) -> list[Statement]:
    guard = _parse_guard(cursor)
    word = cursor.take_kind(TokenKind.WORD)
    if not guard and cursor.accept(":"):
        if cursor.accept(".branchtargets"):
            return [PtxLabel(word, _parse_targets(cursor))]
        return [PtxLabel(word)]
    return [PtxInstruction(word, _parse_operands(cursor), guard, cursor.line)]


def _parse_guard(cursor: TokenCursor) -> tuple[str, ...]:
    if not cursor.accept("@"):
        return ()
    negated = ("!",) if cursor.accept("!") else ()
    return (*negated, cursor.take_kind(TokenKind.WORD))


def _parse_targets(cursor: TokenCursor) -> tuple[str, ...]:
    targets = [cursor.take_kind(TokenKind.WORD)]
    while cursor.accept(","):
        targets.append(cursor.take_kind(TokenKind.WORD))
    cursor.expect(";")
    return tuple(targets)


def _parse_operands(cursor: TokenCursor) -> tuple[tuple[str, ...], ...]:
    if cursor.accept(";"):
        return ()
    operands: list[tuple[str, ...]] = []
    while not operands or cursor.accept(","):
        operands.append(_parse_operand(cursor))
    cursor.expect(";")
    return tuple(operands)


def _parse_operand(cursor: TokenCursor) -> tuple[str, ...]:
    """Read up to a comma or semicolon outside brackets."""
    tokens: list[str] = []
    closing: list[str] = []
    while closing or cursor.next.text not in (",", ";"):
        token = cursor.take()
        if token.kind is TokenKind.MARK:
            _balance(cursor, token.text, closing)
        elif token.kind in (TokenKind.DIRECTIVE, TokenKind.STRING):
            cursor.fail(f"no '{token.text}' among operands")
        tokens.append(token.text)
    return tuple(tokens)


def _balance(cursor: TokenCursor, mark: str, closing: list[str]) -> None:
    if mark in _CLOSING:
        closing.append(_CLOSING[mark])
    elif mark in _OPERAND_MARKS:
        return
    elif not closing or closing.pop() != mark:
        cursor.fail(f"no '{mark}' among operands")


_LINKAGE = (".extern", ".visible", ".weak", ".common")
_SPACES = (".global", ".const", ".shared", ".local", ".param", ".tex")
_FLAGS = (".explicitcluster", ".noreturn", ".blocksareclusters")


def parse(text: str) -> PtxModule:
    """Parse PTX.

    Raises:
        AssemblyRefused: If no compiler would write the text.
    """
    cursor = TokenCursor(text)
    cursor.expect(".version")
    version = cursor.take_kind(TokenKind.NUMBER)
    cursor.expect(".target")
    target = cursor.take_kind(TokenKind.WORD)
    cursor.expect(".address_size")
    bits = cursor.take_integer()
    variables: list[PtxVariable] = []
    functions: list[PtxFunction] = []
    while not cursor.done:
        _parse_top(cursor, variables, functions)
    return PtxModule(version, target, bits, tuple(variables), tuple(functions))


def _parse_top(cursor: TokenCursor, variables: list[PtxVariable], functions: list[PtxFunction]) -> None:
    if cursor.accept(".file"):
        _skip_file(cursor)
    elif cursor.accept(".loc"):
        cursor.skip_location()
    else:
        linkage = cursor.take().text[1:] if cursor.next.text in _LINKAGE else ""
        if cursor.next.text in (".entry", ".func"):
            functions.append(_parse_function(cursor, linkage))
        elif cursor.next.text in _SPACES:
            variables.append(parse_variable(cursor, linkage))
        else:
            cursor.fail("a variable or a function")


def _skip_file(cursor: TokenCursor) -> None:
    cursor.take_kind(TokenKind.NUMBER)
    cursor.take_kind(TokenKind.STRING)
    while cursor.accept(","):
        cursor.take_kind(TokenKind.NUMBER)


def _parse_function(cursor: TokenCursor, linkage: str) -> PtxFunction:
    entry = cursor.take().text == ".entry"
    results = _parse_parameters(cursor) if cursor.next.text == "(" else ()
    name = cursor.take_kind(TokenKind.WORD)
    parameters = _parse_parameters(cursor) if cursor.next.text == "(" else ()
    limits = _parse_limits(cursor)
    line = cursor.line
    body = None if cursor.accept(";") else parse_block(cursor)
    return PtxFunction(name, entry, linkage, results, parameters, limits, body, line)


def _parse_parameters(cursor: TokenCursor) -> tuple[PtxVariable, ...]:
    cursor.expect("(")
    parameters: list[PtxVariable] = []
    while not cursor.accept(")"):
        if parameters:
            cursor.expect(",")
        parameters.append(parse_variable(cursor, "", terminated=False))
    return tuple(parameters)


def _parse_limits(cursor: TokenCursor) -> dict[str, tuple[int, ...]]:
    limits: dict[str, tuple[int, ...]] = {}
    while cursor.next.kind is TokenKind.DIRECTIVE:
        name = cursor.take().text
        if name[1:] in limits:
            raise AssemblyRefused(f"the assembly gives '{name}' twice")
        numbers = [cursor.take_integer()] if name not in _FLAGS else []
        while name not in _FLAGS and cursor.accept(","):
            numbers.append(cursor.take_integer())
        limits[name[1:]] = tuple(numbers)
    return limits
