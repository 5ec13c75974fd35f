"""Several rows per program, as one two-axis tile."""

import ast
import random
from collections.abc import Iterable
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import (
    HINTS,
    MASK_POSITIONS,
    REDUCTIONS,
    TILES,
    InferredValue,
    Known,
    facts_of,
    infer,
    operands_known,
)
from service.emitters.rules.kernels import declare, kernels
from service.emitters.rules.patterns import (
    bodies,
    calls,
    expression,
    fed,
    flat,
    is_call,
    operand,
    reads,
    replace,
    replace_name,
    set_operand,
    statements,
    text,
    unused,
    writes,
)
from service.emitters.rules.programs import PROGRAM, PROGRAMS, ProgramMapping, programs
from service.emitters.rules.tiles import tie_tiles
from service.operators.sources import walk

ROWS = (2, 4, 8, 16)
"""Rows per program to start from; `tune` varies the number."""


@dataclass(frozen=True)
class Tileable:
    """A kernel whose pieces can be rows of a tile. `varying` names what differs between the rows."""

    programs: ProgramMapping
    varying: frozenset[str]


class RowsTile(Rule[Tileable]):
    """Short rows leave most of a program idle; a tile of them shares its weights and its start."""

    name = "rows_tile"
    meaning = "give each program a tile of several rows"

    def sites(self, module: ast.Module) -> Iterable[Tileable]:
        """Find kernels without branches whose every value is a scalar or a one-axis tile, whatever the row."""
        return (site for kernel in kernels(module) if (found := programs(kernel)) and (site := _tileable(found)))

    def change(self, site: Tileable, rng: random.Random) -> None:
        """Make the row's number a column of numbers, and everything that follows from it a tile."""
        kernel, definition = site.programs.kernel, site.programs.definition()
        tie_tiles(kernel)
        number = rng.choice(ROWS)
        pieces = {launch: site.programs.pieces(launch) for launch in kernel.launches}
        names = {launch: declare(launch, "ROWS", number) for launch in kernel.launches}
        for launch in kernel.launches:
            site.programs.set_pieces(launch, f"triton.cdiv({pieces[launch]}, {names[launch]})")
        end = kernel.add_parameter("n_rows", pieces.__getitem__)
        rows = kernel.add_parameter("ROWS", names.__getitem__, constexpr=True)
        _widen(kernel.function, definition, site.varying, (rows, end))


def _tileable(found: ProgramMapping) -> Tileable | None:
    function, body = found.kernel.function, found.body
    lines = [line for line in flat(function.body) if line is not found.loop]
    known = facts_of(function)
    simple = all(_is_simple(line) and (isinstance(line, ast.For) or operands_known(line, known)) for line in lines)
    usual = simple and all(value and len(value.shape) < 2 for value in known.values())
    if not usual or not _is_flat(function, known):
        return None
    varying = frozenset(fed([line for line in lines if not isinstance(line, ast.For)], PROGRAM))
    heads_vary = any(_varies(line.iter, varying) for line in lines if isinstance(line, ast.For))
    stores_vary = all(_varies(call.args[0], varying) for line in body for call in calls(line, "tl.store"))
    inits_known = all(_is_number(line, known) for line in lines if _starts_fixed(line, varying))
    counts = sum(
        PROGRAMS in text(line) for line in lines if not isinstance(line, ast.For) and PROGRAM not in text(line)
    )
    if heads_vary or counts or not (stores_vary and inits_known):
        return None
    return Tileable(found, varying)


def _is_flat(function: ast.FunctionDef, known: Known) -> bool:
    """Return True if no expression has two axes on the way to a value that has one."""
    folded = [infer(call.args[0], known) for call in calls(function, *REDUCTIONS)]
    made = [infer(call, known) for call in calls(function, *TILES)]
    indexed = any(isinstance(node, ast.Subscript) for node in walk(function))
    return not indexed and all(value and len(value.shape) < 2 for value in [*folded, *made])


def _is_simple(line: ast.stmt) -> bool:
    """Return True if a statement is one of those that `_widen` understands."""
    match line:
        case ast.Assign(targets=[ast.Name()]) | ast.AugAssign(target=ast.Name()) | ast.AnnAssign():
            return True
        case ast.For(target=ast.Name(), orelse=[]) | ast.Expr(value=ast.Constant()):
            return True
    return isinstance(line, ast.Expr) and is_call(line.value, "tl.store")


def _varies(node: ast.AST, varying: Iterable[str]) -> bool:
    return PROGRAM in text(node) or bool(reads(node) & set(varying))


def _starts_fixed(line: ast.stmt, varying: frozenset[str]) -> bool:
    """Return True if a statement gives a varying name a value that does not vary, as the start of a sum does."""
    return isinstance(line, ast.Assign) and writes(line) <= varying and not _varies(line.value, varying)


def _is_number(line: ast.stmt, known: Known) -> bool:
    """Return True if a start is a number, for a float32 scalar, or a tile that is the same everywhere."""
    assert isinstance(line, ast.Assign)
    made = is_call(line.value, "tl.zeros", "tl.full")
    start, whole = infer(line.value, known), known[text(line.targets[0])]
    return made or (start == InferredValue(dtype="number") and whole == InferredValue(dtype="float32"))


def _widen(function: ast.FunctionDef, definition: ast.Assign, varying: frozenset[str], names: tuple[str, str]) -> None:
    """Add a leading axis to everything in a kernel: `names[0]` rows out of `names[1]`."""
    rows, end = names
    piece, tile, live = text(definition.targets[0]), unused("rows", function), unused("live", function)
    body = next(body for body in bodies(function) if definition in body)
    varying |= {piece}
    for line in [item for item in flat(function.body) if item is not definition and not isinstance(item, ast.For)]:
        if isinstance(line, ast.Assign) and _starts_fixed(line, varying) and not calls(line, "tl.zeros", "tl.full"):
            line.value = expression(f"tl.full([{rows}, 1], {text(line.value)}, tl.float32)")
            continue
        _widen_line(line, rows)
        _mask(line, varying, live)
        replace_name(line, piece, tile)
    start = f"{tile} = ({piece} * {rows} + tl.arange(0, {rows}))[:, None]"
    place = body.index(definition) + 1
    body[place:place] = statements(f"{start}\n{live} = {tile} < {end}")


def _widen_line(line: ast.stmt, rows: str) -> None:
    for call in calls(line, "tl.zeros", "tl.full"):
        shape = operand(call, 0, "shape")
        assert isinstance(shape, ast.List | ast.Tuple)
        shape.elts.insert(0, expression(rows))
    for call in calls(line, *REDUCTIONS):
        set_operand(call, 1, "axis", "1")
        set_operand(call, 99, "keep_dims", "True")
    hinted = [call for call in calls(line, *HINTS) if calls(call, "tl.arange")]
    covered = [inner for call in hinted for inner in walk(call) if inner is not call]
    for call in [call for call in [*hinted, *calls(line, "tl.arange")] if call not in covered]:
        replace(line, call, expression(f"({text(call)})[None, :]"))


def _mask(line: ast.stmt, varying: frozenset[str], live: str) -> None:
    """Mask loads and stores of varying places to rows that exist."""
    for call in calls(line, *MASK_POSITIONS):
        position = MASK_POSITIONS[text(call.func)]
        if not _varies(call.args[0], varying):
            continue
        mask = operand(call, position, "mask")
        set_operand(call, position, "mask", f"({text(mask)}) & {live}" if mask else live)
        if mask is None and is_call(call, "tl.load"):
            set_operand(call, 2, "other", "0")
