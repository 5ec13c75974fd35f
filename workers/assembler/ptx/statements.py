"""The bodies of PTX functions: variables, labels, hints and instructions."""

from workers.assembler.ptx.cursor import Cursor
from workers.assembler.ptx.syntax import Block, Instruction, Label, Pragma, Statement, Variable
from workers.assembler.ptx.tokens import Kind
from workers.assembler.refusal import Refused

_MAX_DEPTH = 16
"""Nested braces; Triton's inline assembly and call sequences nest two deep."""
_LOCAL_SPACES = (".reg", ".local", ".param", ".shared", ".global", ".const")
_CLOSING = {"(": ")", "[": "]", "{": "}"}
_OPERAND_MARKS = frozenset(",+-!|*")


def parse_block(cursor: Cursor, depth: int = 0) -> Block:
    """Parse statements in braces.

    Raises:
        Refused: If they are no PTX, or nest deeper than any compiler writes.
    """
    if depth == _MAX_DEPTH:
        raise Refused(f"the assembly nests blocks deeper than {_MAX_DEPTH}", cursor.line)
    cursor.expect("{")
    statements: list[Statement] = []
    while not cursor.accept("}"):
        if cursor.accept(".loc"):
            cursor.skip_location()
        elif cursor.next.text == "{":
            statements.append(parse_block(cursor, depth + 1))
        elif cursor.next.kind is Kind.DIRECTIVE:
            statements += _parse_directive(cursor)
        else:
            statements += _parse_statement(cursor)
    return Block(tuple(statements))


def _parse_directive(cursor: Cursor) -> list[Statement]:
    if cursor.accept(".pragma"):
        text = cursor.take_kind(Kind.STRING)[1:-1]
        cursor.expect(";")
        return [Pragma(text)]
    if cursor.next.text not in _LOCAL_SPACES:
        cursor.fail("an instruction")
    if cursor.next.text == ".reg":
        return _parse_registers(cursor)
    return [parse_variable(cursor, "")]


def _parse_registers(cursor: Cursor) -> list[Statement]:
    cursor.expect(".reg")
    attributes = (cursor.take().text[1:],) if cursor.next.text in (".v2", ".v4") else ()
    kind = cursor.take_kind(Kind.DIRECTIVE)[1:]
    registers: list[Statement] = []
    while not registers or cursor.accept(","):
        name, count = cursor.take_kind(Kind.WORD), 0
        if cursor.accept("<"):
            count = cursor.take_integer()
            cursor.expect(">")
        registers.append(Variable("reg", kind, name, attributes=attributes, count=count))
    cursor.expect(";")
    return registers


def parse_variable(cursor: Cursor, linkage: str, terminated: bool = True) -> Variable:
    """Parse one variable or parameter, `.param .align 4 .b8 name[16]`.

    Args:
        cursor: Stands before the state space.
        linkage: Linkage read before it.
        terminated: Whether a semicolon ends it (parameters have none).

    Raises:
        Refused: If it is none.
    """
    space = cursor.take_kind(Kind.DIRECTIVE)[1:]
    words: list[str] = []
    while cursor.next.kind is Kind.DIRECTIVE:
        words.append(cursor.take().text[1:])
        if words[-1] == "align":
            words[-1] += f" {cursor.take_integer()}"
        elif words[-1] == "attribute":
            raise Refused("the assembly gives a variable an '.attribute' (managed or unified memory)", cursor.line)
    if not words:
        cursor.fail("a type")
    name = cursor.take_kind(Kind.WORD)
    extents = _parse_extents(cursor)
    values = _parse_values(cursor) if cursor.accept("=") else None
    if terminated:
        cursor.expect(";")
    kinds = [word for word in words if word not in ("ptr", "global") and not word.startswith("align")]
    if not kinds:
        cursor.fail("a type")
    attributes = tuple(word for word in words if word != kinds[0])
    return Variable(space, kinds[0], name, linkage, attributes, extents, values, line=cursor.line)


def _parse_extents(cursor: Cursor) -> tuple[str, ...]:
    extents: list[str] = []
    while cursor.accept("["):
        extents.append("" if cursor.next.text == "]" else str(cursor.take_integer()))
        cursor.expect("]")
    return tuple(extents)


def _parse_values(cursor: Cursor) -> tuple[str, ...]:
    """Read an initialiser of plain numbers; addresses and nested lists are refused."""
    if not cursor.accept("{"):
        return (_parse_value(cursor),)
    values: list[str] = []
    while not cursor.accept("}"):
        if values:
            cursor.expect(",")
        values.append(_parse_value(cursor))
    return tuple(values)


def _parse_value(cursor: Cursor) -> str:
    sign = "-" if cursor.accept("-") else ""
    return sign + cursor.take_kind(Kind.NUMBER)


def _parse_statement(cursor: Cursor) -> list[Statement]:
    guard = _parse_guard(cursor)
    word = cursor.take_kind(Kind.WORD)
    if not guard and cursor.accept(":"):
        if cursor.accept(".branchtargets"):
            return [Label(word, _parse_targets(cursor))]
        return [Label(word)]
    return [Instruction(word, _parse_operands(cursor), guard, cursor.line)]


def _parse_guard(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.accept("@"):
        return ()
    negated = ("!",) if cursor.accept("!") else ()
    return (*negated, cursor.take_kind(Kind.WORD))


def _parse_targets(cursor: Cursor) -> tuple[str, ...]:
    targets = [cursor.take_kind(Kind.WORD)]
    while cursor.accept(","):
        targets.append(cursor.take_kind(Kind.WORD))
    cursor.expect(";")
    return tuple(targets)


def _parse_operands(cursor: Cursor) -> tuple[tuple[str, ...], ...]:
    if cursor.accept(";"):
        return ()
    operands: list[tuple[str, ...]] = []
    while not operands or cursor.accept(","):
        operands.append(_parse_operand(cursor))
    cursor.expect(";")
    return tuple(operands)


def _parse_operand(cursor: Cursor) -> tuple[str, ...]:
    """Read up to a comma or semicolon outside brackets."""
    tokens: list[str] = []
    closing: list[str] = []
    while closing or cursor.next.text not in (",", ";"):
        token = cursor.take()
        if token.kind is Kind.MARK:
            _balance(cursor, token.text, closing)
        elif token.kind in (Kind.DIRECTIVE, Kind.STRING):
            cursor.fail(f"no '{token.text}' among operands")
        tokens.append(token.text)
    return tuple(tokens)


def _balance(cursor: Cursor, mark: str, closing: list[str]) -> None:
    if mark in _CLOSING:
        closing.append(_CLOSING[mark])
    elif mark in _OPERAND_MARKS:
        return
    elif not closing or closing.pop() != mark:
        cursor.fail(f"no '{mark}' among operands")
