"""Tunable parameters of a candidate: numbers in its tree that may change, with their legal values.

A number is a parameter only if another value computes the same: launch options, extents of tiles that a loop or the
grid steps by, sizes of groups and runs, programs per multiprocessor. A tile that must hold a whole row is no parameter.
"""

import ast
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from service.emitters.rules.kernels import RewritableKernel, assigned_once, kernels, origins
from service.emitters.rules.loops import sweep
from service.emitters.rules.patterns import calls, flat, is_call, text
from service.emitters.rules.tiles import tie_tiles
from service.operators.sources import GLUON_JIT, LaunchSite, decorators, jit_functions, launches, walk

Ladder = tuple[int, ...]


def powers(low: int, high: int) -> Ladder:
    """Return the powers of two from `low` to `high`, both included."""
    return tuple(2**exponent for exponent in range(low.bit_length() - 1, high.bit_length()))


WARPS = {"sm": powers(1, 32), "gfx": powers(1, 16)}
"""Warps per program by kind of target: a block has at most 1024 threads, and a warp has 32 or 64 of them."""

STAGES: Ladder = (1, 2, 3, 4, 5)

REGISTERS: Ladder = (64, 80, 96, 128, 168, 255)
"""Registers per thread: an instruction can address 255."""

DEFAULTS = {"num_warps": 4, "num_stages": 3}
"""Triton's defaults for options that a launch does not pass (`CUDAOptions` in triton 3.7)."""

ROW_TILES, DOT_TILES = powers(16, 65536), powers(16, 256)
"""Extents of a tile of a row, and of an operand of `tl.dot`, which needs 16; shared memory holds few large ones."""

COUNTS, RESIDENT, UNROLL, PER_WARP = powers(1, 64), powers(1, 32), powers(1, 8), powers(64, 4096)
CAPS = powers(256, 65536)
FIRST_CAPS = (2048, 4096)
"""First caps to try on a row's tile that has none."""

GLUON_LADDERS = {
    "GROUP": COUNTS,
    "BLOCK_M": powers(64, 256),
    "BLOCK": powers(32, 256),
    "SLOTS": tuple(range(1, 9)),
    "REGISTERS": (152, 168, 184, 200, 216, 232, 240),
}
"""Legal values of a Gluon kernel's constants by words in their names, of which the first counts: tiles or heads side by
side, rows of a tile (a warp group multiplies 64), other extents, places of a ring, and registers of a thread of a warp
group, of which `setmaxnreg` takes multiples of 8."""

COUNTED = ("ROWS", "RUN", "GROUP")
"""Words in the names of constexpr parameters that are counts and not extents."""


@dataclass(frozen=True)
class TunableParameter:
    """One tunable number.

    Attributes:
        name: Name in notes.
        value: Present value; None for a cap that is not there yet.
        ladder: Legal values, ascending.
        write: Function that changes it in the tree.
        kernel: Name of the kernel whose launch holds it; empty if it is no launch's.
    """

    name: str
    value: int | None
    ladder: Ladder
    write: Callable[[int], None]
    kernel: str = ""

    @property
    def neighbours(self) -> Ladder:
        """Legal values next to the present one."""
        if self.value is None:
            return FIRST_CAPS
        below = [rung for rung in self.ladder if rung < self.value]
        above = [rung for rung in self.ladder if rung > self.value]
        return (*below[-1:], *above[:1])


def parameters(module: ast.Module, target: str) -> list[TunableParameter]:
    """Return the parameters of a candidate that is compiled for `target`. Their names are unique.

    A number that is written in two places gets a name in the tree first, so that both change together.
    """
    for kernel in kernels(module):
        tie_tiles(kernel)
    understood = {id(kernel.function): kernel for kernel in kernels(module)}
    found = [
        replace(item, kernel=launch.kernel.name)
        for launch in launches(module)
        for item in _of_launch(launch, understood, target)
    ]
    found += [item for function in jit_functions(module).values() for item in _of_loops(function)]
    in_gluon = launches(module, GLUON_JIT)
    found += [replace(item, kernel=launch.kernel.name) for launch in in_gluon for item in _of_gluon(launch)]
    hosts = {id(item.host): item.host for item in (*launches(module), *in_gluon)}
    found += [item for host in hosts.values() for item in _of_host(host)]
    return _with_unique_names(found)


def _of_launch(launch: LaunchSite, understood: dict[int, RewritableKernel], target: str) -> Iterator[TunableParameter]:
    """Yield the options of a launch, and the extents of the tiles that it passes."""
    if len(decorators(launch.kernel)) == 1:
        loops = any(isinstance(line, ast.For) for line in flat(launch.kernel.body))
        yield from _option(launch, "num_warps", WARPS["gfx" if target.startswith("gfx") else "sm"])
        yield from _option(launch, "num_stages", STAGES) if loops else ()
        yield from _option(launch, "maxnreg", REGISTERS)
    kernel = understood.get(id(launch.kernel))
    for tile in sorted(kernel.constexprs) if kernel else ():
        if kernel and _is_free(kernel, launch, tile):
            yield from _tile(kernel, launch, tile)


def _of_gluon(launch: LaunchSite) -> Iterator[TunableParameter]:
    """Yield the numbers of a launch in Gluon whose names say their meaning; its layouts fix the number of warps."""
    for name, keyword in launch.keywords.items():
        ladder = next((ladder for word, ladder in GLUON_LADDERS.items() if word in name.upper()), None)
        if ladder is not None:
            yield from _literals(f"{launch.kernel.name}.{name}", _settled(launch.host, keyword.value), ladder)


def _option(launch: LaunchSite, name: str, ladder: Ladder) -> Iterator[TunableParameter]:
    keyword = launch.keywords.get(name)
    label = f"{launch.kernel.name}.{name}"
    if keyword:
        yield from _literals(label, _settled(launch.host, keyword.value), ladder)
    elif name in DEFAULTS:
        yield TunableParameter(label, DEFAULTS[name], ladder, partial(_add_option, launch, name))


def _add_option(launch: LaunchSite, name: str, value: int) -> None:
    launch.call.keywords.append(ast.keyword(name, ast.Constant(value)))


def _tile(kernel: RewritableKernel, launch: LaunchSite, tile: str) -> Iterator[TunableParameter]:
    label, value = f"{kernel.function.name}.{tile}", kernel.value(launch, tile)
    if is_call(value, "triton.next_power_of_2"):
        code = text(value)
        yield TunableParameter(
            f"{label} cap", None, CAPS, lambda cap: kernel.set_argument(launch, tile, f"min({code}, {cap})")
        )
        return
    small = isinstance(value, ast.Constant) and isinstance(value.value, int) and value.value < 16
    counted = small or any(word in tile.upper() for word in COUNTED)
    yield from _literals(label, value, COUNTS if counted else _extents(kernel.function))


def _extents(function: ast.FunctionDef) -> Ladder:
    return DOT_TILES if calls(function, "tl.dot") else ROW_TILES


def _literals(name: str, node: ast.expr, ladder: Ladder) -> Iterator[TunableParameter]:
    """Yield numbers of an expression such as `max(1, min(32, block // 512))`, each under its part in it."""
    match node:
        case ast.Constant(value=int() as value) if value > 0 and not isinstance(value, bool):
            yield TunableParameter(name, value, ladder, partial(setattr, node, "value"))
        case ast.Call(args=arguments) if is_call(node, "min", "max"):
            part = "cap" if is_call(node, "min") else "floor"
            for item in arguments:
                yield from _literals(f"{name} {part}" if isinstance(item, ast.Constant) else name, item, ladder)
        case ast.BinOp(op=ast.FloorDiv(), right=ast.Constant() as divisor):
            yield from _literals(f"{name} per", divisor, PER_WARP)


def _is_free(kernel: RewritableKernel, launch: LaunchSite, tile: str) -> bool:
    """Return True if a tile may have another extent: a loop steps by it, the grid counts it, or it only groups."""
    if "GROUP" in tile.upper():
        return True
    if any(found.step == tile for line in flat(kernel.function.body) if (found := sweep(line))):
        return True
    carrier = assigned_once(launch.host, text(launch.subscript.slice))
    written = text(carrier.value if carrier else launch.subscript.slice)
    argument = kernel.argument(launch, tile)
    counted = isinstance(argument, ast.Name) and argument.id in origins(launch.host, launch.subscript.slice)
    return counted or (f"['{tile}']" in written and not _is_repeated(argument, launch.host))


def _is_repeated(value: ast.expr, host: ast.FunctionDef) -> bool:
    """Return True if the host writes a number again elsewhere, so that it must not change here alone."""
    return isinstance(value, ast.Constant) and sum(text(node) == text(value) for node in walk(host)) > 1


def _settled(host: ast.FunctionDef, node: ast.expr) -> ast.expr:
    assignment = assigned_once(host, text(node))
    return assignment.value if assignment else node


def _of_loops(function: ast.FunctionDef) -> Iterator[TunableParameter]:
    """Yield the compiler options of loops."""
    loops = [line for line in flat(function.body) if isinstance(line, ast.For) and is_call(line.iter, "tl.range")]
    ladders = {"num_stages": STAGES, "loop_unroll_factor": UNROLL}
    for loop in loops:
        for option in (node for node in walk(loop.iter) if isinstance(node, ast.keyword) and node.arg in ladders):
            yield from _literals(f"{function.name}.loop {option.arg}", option.value, ladders[option.arg or ""])


def _of_host(host: ast.FunctionDef) -> Iterator[TunableParameter]:
    """Yield the programs per multiprocessor."""
    for node in walk(host):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
            for number, other in ((node.left, node.right), (node.right, node.left)):
                if "multi_processor_count" in text(_settled(host, other)):
                    yield from _literals(f"{host.name}.programs_per_sm", number, RESIDENT)


def _with_unique_names(found: Sequence[TunableParameter]) -> list[TunableParameter]:
    """Shorten names without the function's where that is unique, and number those that still collide."""
    short = Counter(item.name.partition(".")[2] for item in found)
    seen: Counter[str] = Counter()
    result = []
    for item in found:
        tail = item.name.partition(".")[2]
        name = tail if short[tail] == 1 else item.name
        seen[name] += 1
        result.append(replace(item, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return result
