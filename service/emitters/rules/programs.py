"""Mapping from programs to pieces of the work, along axis 0 of the grid.

Three forms are known: one piece per program; a *persistent* loop, in which a few programs stride over all pieces; and a
*run* of neighbouring pieces per program. `share` turns the first form into one of the others.
"""

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass

from service.emitters.rules.kernels import RewritableKernel, grid, introduce, is_constexpr, set_grid
from service.emitters.rules.patterns import calls, expression, flat, replace, statements, text, unused
from service.emitters.rules.tiles import tie_tiles
from service.operators.sources import LaunchSite, walk

PROGRAM = "tl.program_id(0)"
PROGRAMS = "tl.num_programs(0)"

FORWARD, BACKWARD = PROGRAM, f"{PROGRAMS} - 1 - {PROGRAM}"
"""Code for the piece's number in a kernel with one piece per program."""

PERSISTENT = "range(tl.cdiv({count} - tl.program_id(0), tl.num_programs(0)))"
RUN = "range(tl.minimum({run}, {count} - tl.program_id(0) * {run}))"
_LOOPS = (
    r"range\(tl\.cdiv\((?P<count>\w+) - tl\.program_id\(0\), tl\.num_programs\(0\)\)\)",
    r"range\(tl\.minimum\((?P<run>\w+), (?P<count>\w+) - tl\.program_id\(0\) \* (?P=run)\)\)",
)


@dataclass(frozen=True)
class ProgramMapping:
    """Kernel whose mapping has a known form.

    Attributes:
        kernel: The kernel.
        loop: Loop over pieces; None if a program has one piece.
        count: Parameter that holds the number of pieces, if there is a loop.
    """

    kernel: RewritableKernel
    loop: ast.For | None = None
    count: str | None = None

    @property
    def total(self) -> str:
        """Code, inside the kernel, for the number of pieces."""
        return self.count or PROGRAMS

    @property
    def body(self) -> list[ast.stmt]:
        """Statements for one piece."""
        return self.loop.body if self.loop else self.kernel.function.body

    def pieces(self, launch: LaunchSite, axis: int = 0) -> str:
        """Return host code for the number of pieces along an axis of the grid; empty if it has no such axis."""
        if self.count:
            return text(self.kernel.value(launch, self.count))
        extents = grid(launch) or []
        return text(extents[axis]) if axis < len(extents) else ""

    def set_pieces(self, launch: LaunchSite, code: str) -> None:
        """Launch for another number of pieces."""
        if self.count:
            self.kernel.set_argument(launch, self.count, code)
        else:
            set_grid(launch, [code, *(text(extent) for extent in (grid(launch) or [])[1:])])

    def definition(self) -> ast.Assign:
        """Return the only statement that reads the piece's number; it is added at the top if there is none yet."""
        asking = [line for line in self.body if PROGRAM in text(line)]
        first = asking[0]
        if (
            isinstance(first, ast.Assign)
            and len(asking) == 1
            and (self.loop or text(first.value) in (FORWARD, BACKWARD))
        ):
            return first
        name = unused("program", self.kernel.function)
        for call in (call for line in asking for call in calls(line, "tl.program_id") if text(call) == PROGRAM):
            replace(self.kernel.function, call, expression(name))
        made = ast.Assign([ast.Name(name, ast.Store())], expression(PROGRAM), lineno=0)
        self.body.insert(0, made)
        return made


def programs(kernel: RewritableKernel) -> ProgramMapping | None:
    """Read a kernel's mapping; None if its form is unknown."""
    if any(grid(launch) is None for launch in kernel.launches):
        return None
    asking = [node for node in flat(kernel.function.body) if isinstance(node, ast.For) and PROGRAM in text(node.iter)]
    if not asking:
        return ProgramMapping(kernel) if PROGRAM in text(kernel.function) else None
    found = next((match for loop in _LOOPS if (match := re.fullmatch(loop, text(asking[0].iter)))), None)
    return ProgramMapping(kernel, asking[0], found["count"]) if found and len(asking) == 1 else None


def shareable(kernel: RewritableKernel) -> ProgramMapping | None:
    """Return the mapping of a kernel with one piece per program, a grid of one axis and no early return; else None."""
    found = programs(kernel)
    flat_grid = found and not found.loop and all(len(grid(launch) or []) == 1 for launch in kernel.launches)
    leaves = any(isinstance(node, ast.Return) for node in walk(kernel.function))
    return found if flat_grid and not leaves else None


def share(site: ProgramMapping, head: str, number: str, host_grid: Callable[[LaunchSite, str], str]) -> None:
    """Give each program several pieces: put the kernel's body in a loop.

    Args:
        site: A shareable kernel.
        head: Range of the loop, in terms of `{count}`, the number of pieces.
        number: Number of the piece, in terms of `{turn}`, the loop's variable.
        host_grid: Function that returns a launch's number of programs, given the name of the number of pieces.
    """
    tie_tiles(site.kernel)
    function, definition = site.kernel.function, site.definition()
    names = {launch: introduce(launch, "programs", site.pieces(launch)) for launch in site.kernel.launches}
    count, turn = site.kernel.add_parameter("programs", names.__getitem__), unused("turn", function)
    for asked in (call for call in calls(function, "tl.num_programs") if text(call) == PROGRAMS):
        replace(function, asked, expression(count))
    replace(definition, calls(definition, "tl.program_id")[0], expression(number.format(turn=turn)))
    fixed = [line for line in function.body if isinstance(line, ast.AnnAssign) and is_constexpr(line.annotation)]
    loop = statements(f"for {turn} in {head.format(count=count)}: pass")[0]
    assert isinstance(loop, ast.For)
    loop.body = [line for line in function.body if line not in fixed]
    function.body = [*fixed, loop]
    for launch, name in names.items():
        set_grid(launch, [host_grid(launch, name)])
