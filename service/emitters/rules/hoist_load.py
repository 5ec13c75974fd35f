"""One load of the data that all pieces of a program's work share."""

import ast
import random
from collections.abc import Iterable
from dataclasses import dataclass

from service.emitters.rules.base import Rule
from service.emitters.rules.kernels import kernels, writes_apart
from service.emitters.rules.patterns import bodies, calls, reads, writes
from service.emitters.rules.programs import programs


@dataclass(frozen=True)
class LoopInvariant:
    """Loop over pieces, and its lines that do the same in every iteration."""

    body: list[ast.stmt]
    loop: ast.For
    lines: tuple[ast.stmt, ...]


class HoistLoad(Rule[LoopInvariant]):
    """Weights do not change from row to row: a persistent program can keep them in registers."""

    name = "hoist_load"
    meaning = "load what all pieces share before the loop over pieces"

    def sites(self, module: ast.Module) -> Iterable[LoopInvariant]:
        """Find loops over pieces with loads that do not depend on the piece."""
        for kernel in kernels(module):
            found = programs(kernel)
            if found and found.loop and writes_apart(kernel) and (lines := _shared(found.loop)):
                body = next(body for body in bodies(kernel.function) if found.loop in body)
                yield LoopInvariant(body, found.loop, tuple(lines))

    def change(self, site: LoopInvariant, rng: random.Random) -> None:
        """Move the lines in front of the loop, which every program enters."""
        site.loop.body = [line for line in site.loop.body if line not in site.lines]
        place = site.body.index(site.loop)
        site.body[place:place] = site.lines


def _shared(loop: ast.For) -> list[ast.stmt]:
    """Return the assignments that every iteration repeats; none if there is no load among them."""
    written = [name for line in loop.body for name in writes(line)] + list(writes(loop.target))
    shared: list[ast.stmt] = []
    for line in loop.body:
        moved = writes(*shared)
        free = isinstance(line, ast.Assign) and not reads(line) & (set(written) - moved)
        if free and all(written.count(name) == 1 for name in writes(line)):
            shared.append(line)
    return shared if any(calls(line, "tl.load") for line in shared) else []
