"""A row in chunks, in place of a row in one tile."""

import ast
import random
from collections.abc import Iterable
from copy import deepcopy

from service.emitters.rules.base import Rule
from service.emitters.rules.facts import REDUCTIONS, infer
from service.emitters.rules.kernels import is_private
from service.emitters.rules.patterns import calls, expression, reads, replace, statements, text, unused
from service.emitters.rules.rows import RowTile, fixed_lines, rows
from service.emitters.rules.straight import assign, needed, target
from service.operators.sources import launches

CHUNKS = (1024, 2048, 4096)
"""Elements per chunk to start from; `tune` varies the number."""


class ChunkRow(Rule[RowTile]):
    """Chunks need few registers at any row length, but read the row again for each step that needs all of it."""

    name = "chunk_row"
    meaning = "go over a row in chunks"

    def sites(self, module: ast.Module) -> Iterable[RowTile]:
        """Find rows in one tile whose extent is passed for them alone."""
        found = launches(module)
        return (
            row
            for row in rows(module)
            if all(is_private(item, row.kernel.argument(item, row.block), found) for item in row.kernel.launches)
        )

    def change(self, site: RowTile, rng: random.Random) -> None:
        """Split the lines into sweeps, each up to the next fold of the row."""
        chunk = rng.choice(CHUNKS)
        site.body[:] = [*fixed_lines(site.body), *_chunked(site)]
        for launch in site.kernel.launches:
            value = site.kernel.value(launch, site.block)
            if not isinstance(value, ast.Constant):
                site.kernel.set_argument(launch, site.block, f"min({text(value)}, {chunk})")


def _chunked(row: RowTile) -> list[ast.stmt]:
    phases = _phases(row)
    result: list[ast.stmt] = []
    for phase in range(max(phases) + 1):
        lines = [line for line, number in zip(row.lines, phases, strict=True) if number == phase]
        result += [line for line in lines if not row.is_wide(line) and not row.folds(line)]
        roots = [line for line in lines if row.folds(line) or (row.is_wide(line) and not target(line))]
        if roots:
            result += _swept(row, roots)
    return result


def _phases(row: RowTile) -> list[int]:
    """Return, for each line, the number of sweeps that must have ended before it. Stores keep their order."""
    level: dict[str, int] = {}
    last_store, result = 0, []
    for line in row.lines:
        phase = max((level.get(name, 0) for name in reads(line)), default=0)
        if not target(line):
            phase = last_store = max(phase, last_store)
        level[target(line)] = phase + row.folds(line)
        result.append(phase)
    return result


def _swept(row: RowTile, roots: list[ast.stmt]) -> list[ast.stmt]:
    """Build one sweep: the roots' inputs, computed again for each chunk, and the folds over all chunks."""
    function = row.kernel.function
    start = unused("start", function)
    body = [line for line in needed(row.lines, roots) if row.is_wide(line)]
    before, after = [], []
    for root in roots:
        if not row.folds(root):
            body.append(root)
            continue
        first, step, last = _accumulated(row, root)
        before.append(first)
        body.append(step)
        after.append(last)
    loop = statements(f"for {start} in range(0, {row.extent}, {row.block}): pass")[0]
    assert isinstance(loop, ast.For)
    loop.body = [_shifted(line, start, row.block) for line in body]
    return [*before, loop, *after]


def _accumulated(row: RowTile, fold: ast.stmt) -> tuple[ast.stmt, ast.stmt, ast.stmt]:
    """Return a fold of the row as a start before the sweep, a step in it, and a fold of one chunk after it."""
    assert isinstance(fold, ast.Assign) and isinstance(fold.value, ast.Call)
    call = deepcopy(fold.value)
    function, value = text(call.func), call.args[0]
    name = unused(f"{target(fold)}_lanes", row.kernel.function)
    tile = infer(value, row.known)
    shape = ", ".join(tile.shape if tile else ())
    start = repr(REDUCTIONS[function]) if function == "tl.sum" else f"{'-' if function == 'tl.max' else ''}float('inf')"
    joined = {"tl.sum": "{} + {}", "tl.max": "tl.maximum({}, {})", "tl.min": "tl.minimum({}, {})"}[function]
    first = assign(name, expression(f"tl.full([{shape}], {start}, tl.float32)"))
    step = assign(name, expression(joined.format(name, text(value))))
    call.args[0] = expression(name)
    return first, step, assign(target(fold), call)


def _shifted(line: ast.stmt, start: str, block: str) -> ast.stmt:
    """Return a copy of a line for the chunk that begins at `start`."""
    result = deepcopy(line)
    for call in calls(result, "tl.arange"):
        if text(call.args[1]) == block:
            replace(result, call, expression(f"{start} + {text(call)}"))
    return result
