"""Parser of PTX: tokens to a `PtxModule`. It refuses text outside of the grammar; the rules are in `lint`."""

from workers.assembler.ptx.cursor import TokenCursor
from workers.assembler.ptx.statements import parse_block, parse_variable
from workers.assembler.ptx.syntax import PtxFunction, PtxModule, PtxVariable
from workers.assembler.ptx.tokens import TokenKind
from workers.assembler.refusal import AssemblyRefused

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
