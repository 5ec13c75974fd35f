"""Operands of a product of TF32 parts, split and laid out by kernels of their own before it.

A product in `tf32x3` splits what it loads in every program and at every step, in registers, and the matrix units want
the summed axis of both operands side by side in shared memory. Split ahead, operands go from memory to the units, each
split once. A product of 16384x4096x4096, with its norm and activation, took 5,663 us with operands split ahead on an
H100 (2026-11-26), 11,166 with cuBLAS's float32 product; its sums were inside the matrix units then. Outside them, where
they belong, no card has timed it.
"""

import ast
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from service.emitters.rules.base import Rule
from service.emitters.rules.boxes import Box, boxes
from service.emitters.rules.kernels import RewritableKernel, grid, kernels
from service.emitters.rules.loops import Sweep, sweep
from service.emitters.rules.patterns import calls, expression, is_call, replace, statements, text, unused
from service.operators.sources import LaunchSite, jit_functions, walk

ALIGNED = 16
"""Multiple of elements that a summed axis is padded to with zeros, so that loads are wide whatever its extent is."""

SPLITTING = """
@triton.jit
def {name}(x_ptr, parts_ptr, n_rows, n_cols, padded, part_size, TURNED: tl.constexpr, BLOCK_M: tl.constexpr,
           BLOCK_N: tl.constexpr):
    matrix = tl.program_id(2).to(tl.int64)
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    cols = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_row, is_col = rows[:, None] < n_rows, cols[None, :] < n_cols
    source = (matrix * n_rows + rows[:, None]) * n_cols + cols[None, :]
    x = tl.load(x_ptr + source, mask=is_row & is_col, other=0.0).to(tl.float32)
    near = ((x.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
    large = tl.where(x == x, near, x)
    rest = x - large
    close = ((rest.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
    small = tl.where(rest == rest, close, rest)
    if TURNED:
        target = (matrix * n_cols + cols[None, :]) * padded + rows[:, None]
        inside = (rows[:, None] < padded) & is_col
    else:
        target = (matrix * n_rows + rows[:, None]) * padded + cols[None, :]
        inside = is_row & (cols[None, :] < padded)
    tl.store(parts_ptr + target, large, mask=inside)
    tl.store(parts_ptr + part_size + target, small, mask=inside)
"""
"""Split of matrices into two TF32 parts each, the large ones first, with the summed axis last and padded. Parts are
rounded to the nearest, since matrix units cut. The rest of an infinity is NaN, which the product leaves out."""

TILE = 64
"""Rows and columns per program of the split."""


@dataclass(frozen=True)
class SplitOperand:
    """An operand of a product: a box of a matrix, or of one of several of them.

    Attributes:
        line: The line that loads it.
        name: Its name.
        rest: Name for its small part.
        pointer: The kernel's parameter that points to it.
        box: The load.
        matrix: Name of the matrix' number; empty if there is one matrix.
        axis: Axis of the grid that counts matrices.
        turned: True if the summed axis is the matrix' first.
    """

    line: ast.Assign
    name: str
    rest: str
    pointer: str
    box: Box
    matrix: str
    axis: int
    turned: bool

    @property
    def ends(self) -> tuple[str, str]:
        """Parameters with the extents of the other and of the summed axis."""
        return self.box.shape[self.turned], self.box.shape[not self.turned]

    @property
    def indices(self) -> tuple[str, str]:
        """Names of the elements along the other and along the summed axis."""
        return self.box.indices[self.turned], self.box.indices[not self.turned]


@dataclass(frozen=True)
class SplittableProduct:
    """A kernel with one product of TF32 parts in one sweep.

    Attributes:
        kernel: The kernel.
        sweep: Over the summed axis.
        line: The line with the product.
        start: The line that starts its sum.
        operands: The left and the right operand.
    """

    kernel: RewritableKernel
    sweep: Sweep
    line: ast.Assign
    start: ast.Assign
    operands: tuple[SplitOperand, SplitOperand]


class SplitAhead(Rule[SplittableProduct]):
    """Every program of a row or column of tiles splits the same operands again, in registers."""

    name = "split_ahead"
    meaning = "split operands of a product into TF32 parts before it"

    def sites(self, module: ast.Module) -> Iterable[SplittableProduct]:
        """Find kernels with one product of TF32 parts, whose operands are boxes of whole matrices."""
        return (site for kernel in kernels(module) for site in _products(kernel))

    def change(self, site: SplittableProduct, rng: random.Random) -> None:
        """Launch a kernel that splits for each operand, and load the parts."""
        kernel = site.kernel
        name = _splitter(kernel) or unused("split_kernel", kernel.module)
        split = {id(launch.call): _LaunchSplit(site, launch, name) for launch in kernel.launches}
        padded = kernel.add_parameter("padded", lambda launch: split[id(launch.call)].padded)
        for operand in site.operands:
            size = kernel.add_parameter(f"{operand.name}_size", partial(_size_at, split, operand))
            _load(site, operand, padded, size)
        for each in split.values():
            each.insert()
        _multiply(site, padded)
        if _splitter(kernel) is None:
            place = min(kernel.module.body.index(each.launch.host) for each in split.values())
            kernel.module.body[place:place] = statements(SPLITTING.format(name=name))


class _LaunchSplit:
    """The launches that split the operands of one launch of a product.

    Args:
        site: The product.
        launch: Its launch.
        name: Name of the kernel that splits.
    """

    def __init__(self, site: SplittableProduct, launch: LaunchSite, name: str) -> None:
        self.launch, self._site, self._name = launch, site, name
        self.padded = unused("padded", launch.host)

    def insert(self) -> None:
        """Insert the launches, and pass parts in place of operands."""
        host, site = self.launch.host, self._site
        summed = self._given(site.operands[0].ends[1])
        lines = statements(f"{self.padded} = triton.cdiv({summed}, {ALIGNED}) * {ALIGNED}")
        for operand in site.operands:
            x = site.kernel.argument(self.launch, operand.pointer)
            parts = unused(f"{operand.name}_parts", host, *lines)
            rows, cols = map(self._given, operand.box.shape)
            tall, wide = (self.padded, cols) if operand.turned else (rows, self.padded)
            extents = [f"triton.cdiv({tall}, {TILE})", f"triton.cdiv({wide}, {TILE})", self._count(operand)]
            given = [text(x), parts, rows, cols, self.padded, self.size(operand)]
            tile = [f"TURNED={operand.turned}", f"BLOCK_M={TILE}", f"BLOCK_N={TILE}"]
            lines += statements(
                f"{parts} = torch.empty((2, {self.size(operand)}), dtype=torch.float32, device={text(x)}.device)\n"
                f"{self._name}[({', '.join(extents)})]({', '.join([*given, *tile])})"
            )
            replace(self.launch.call, x, expression(parts))
        place = next(at for at, line in enumerate(host.body) if line is _line_of(self.launch))
        host.body[place:place] = lines

    def size(self, operand: SplitOperand) -> str:
        """Return the number of elements of one of an operand's parts, as code."""
        matrices = f"{self._count(operand)} * " if operand.matrix else ""
        return f"{matrices}({self._given(operand.ends[0])}) * {self.padded}"

    def _count(self, operand: SplitOperand) -> str:
        return text((grid(self.launch) or [])[operand.axis]) if operand.matrix else "1"

    def _given(self, parameter: str) -> str:
        return text(self._site.kernel.argument(self.launch, parameter))


def _splitter(kernel: RewritableKernel) -> str | None:
    """Return the name of the kernel that splits, if the module has it already."""
    functions = jit_functions(kernel.module).items()
    return next(
        (name for name, item in functions if text(item) == text(statements(SPLITTING.format(name=name))[0])), None
    )


def _size_at(split: Mapping[int, _LaunchSplit], operand: SplitOperand, launch: LaunchSite) -> str:
    return split[id(launch.call)].size(operand)


def _load(site: SplittableProduct, operand: SplitOperand, padded: str, size: str) -> None:
    """Load both parts of an operand. Tiles are rows by summed elements on the left, the reverse on the right."""
    outer, summed = operand.indices
    axes = ("[:, None]", "[None, :]") if operand is site.operands[0] else ("[None, :]", "[:, None]")
    matrix = f" + {operand.matrix}.to(tl.int64) * {operand.ends[0]} * {padded}" if operand.matrix else ""
    at = unused(f"{operand.name}_at", site.kernel.function)
    mask = f"({outer}{axes[0]} < {operand.ends[0]}) & ({summed}{axes[1]} < {padded})"
    body = site.sweep.loop.body
    place = body.index(operand.line)
    body[place : place + 1] = statements(
        f"{at} = {operand.pointer}{matrix} + ({outer}.to(tl.int64){axes[0]} * {padded} + {summed}{axes[1]})\n"
        f"{operand.name} = tl.load({at}, mask={mask}, other=0.0)\n"
        f"{operand.rest} = tl.load({at} + {size}, mask={mask}, other=0.0)"
    )


def _multiply(site: SplittableProduct, padded: str) -> None:
    """Add up products of large parts outside the matrix units, which cut each sum; products of rests inside them.

    Triton makes `total += dot(a, b)` a sum inside them as well, unless the number of inexact sums has a maximum. A
    layer of 4096 terms lost 1e-5 so, and was refused on an H200.
    """
    function, loop, total = site.kernel.function, site.sweep.loop, text(site.line.targets[0])
    cross, (left, right) = unused("cross", function), site.operands
    place = loop.body.index(site.line)
    loop.body[place : place + 1] = statements(
        f"{cross} = tl.dot({left.name}, {right.rest}, {cross}, input_precision='tf32')\n"
        f"{cross} = tl.dot({left.rest}, {right.name}, {cross}, input_precision='tf32')\n"
        f"{total} += tl.dot({left.name}, {right.name}, input_precision='tf32', max_num_imprecise_acc={site.sweep.step})"
    )
    assert isinstance(loop.iter, ast.Call)
    loop.iter.args[1] = expression(padded)
    place = function.body.index(loop)
    function.body[place + 1 : place + 1] = statements(f"{total} += tl.where({cross} == {cross}, {cross}, 0.0)")
    function.body[place:place] = statements(f"{cross} = {text(site.start.value)}")


def _line_of(launch: LaunchSite) -> ast.Expr | None:
    """Return the host's statement that launches; None if it is inside another one."""
    return next((line for line in launch.host.body if isinstance(line, ast.Expr) and line.value is launch.call), None)


def _products(kernel: RewritableKernel) -> Iterator[SplittableProduct]:
    sweeps = [found for line in kernel.function.body if (found := sweep(line))]
    loops = [node for node in walk(kernel.function) if isinstance(node, ast.For | ast.While)]
    products = calls(kernel.function, "tl.dot")
    if not len(sweeps) == len(loops) == len(products) == 1 or not all(map(_line_of, kernel.launches)):
        return
    (found,), (product,) = sweeps, products
    line = next((each for each in found.loop.body if isinstance(each, ast.Assign) and each.value is product), None)
    start = _start(kernel, line, product)
    if line is None or start is None:
        return
    inner, left, right = _summed(found), product.args[0], product.args[1]
    operands = [_operand(kernel, found, value, inner, side) for value, side in ((left, "left"), (right, "right"))]
    if operands[0] and operands[1] and _are_alone(kernel, operands[0], operands[1]):
        yield SplittableProduct(kernel, found, line, start, (operands[0], operands[1]))


def _start(kernel: RewritableKernel, line: ast.Assign | None, product: ast.Call) -> ast.Assign | None:
    """Return the line that starts the sum of a product of TF32 parts at zero; None for any other product."""
    if line is None or [text(item.value) for item in product.keywords] != ["'tf32x3'"] or len(product.args) != 3:
        return None
    total = text(line.targets[0])
    starts = [each for each in kernel.function.body if isinstance(each, ast.Assign) and text(each.targets[0]) == total]
    is_zero = bool(starts) and is_call(starts[0].value, "tl.zeros")
    return starts[0] if is_zero and text(product.args[2]) == total else None


def _summed(found: Sweep) -> str:
    """Return the name of one step's summed elements, `start + tl.arange(0, BLOCK)`; empty if there is none."""
    code = f"{found.variable} + tl.arange(0, {found.step})"
    lines = [line for line in found.loop.body if isinstance(line, ast.Assign) and text(line.value) == code]
    return text(lines[0].targets[0]) if len(lines) == 1 else ""


def _operand(kernel: RewritableKernel, found: Sweep, value: ast.expr, inner: str, side: str) -> SplitOperand | None:
    """Read an operand, `name` or `tl.trans(name)`, whose name is loaded in the sweep."""
    name = text(value.args[0] if is_call(value, "tl.trans") else value)
    lines = [line for line in found.loop.body if isinstance(line, ast.Assign) and text(line.targets[0]) == name]
    box = next((each for each in boxes(kernel) if len(lines) == 1 and each.load is lines[0].value), None)
    if box is None or box.stride != box.shape[1] or inner not in box.indices:
        return None
    start = _matrix_of(kernel, box)
    turned = box.indices[0] == inner
    # A left operand is rows by summed elements unless it is transposed, a right one the reverse.
    if start is None or turned != ((side == "right") != is_call(value, "tl.trans")):
        return None
    if box.shape[not turned] != found.extent or box.shape[turned] not in kernel.parameters:
        return None
    rest, (pointer, matrix, axis) = unused(f"{name}_rest", kernel.function), start
    return SplitOperand(lines[0], name, rest, pointer, box, matrix, axis, turned)


def _matrix_of(kernel: RewritableKernel, box: Box) -> tuple[str, str, int] | None:
    """Return the pointer of a box, the name of its matrix' number, and the axis of the grid that counts matrices."""
    pointer, _, matrix = box.base.partition(" + ")
    if pointer not in kernel.parameters or not matrix:
        return (pointer, "", 0) if pointer in kernel.parameters else None
    name, *sizes = matrix.split(" * ")
    lines = [line for line in kernel.function.body if isinstance(line, ast.Assign) and text(line.targets[0]) == name]
    if len(lines) != 1 or not (sorted(sizes) == sorted(box.shape) or _is_size(kernel, box, sizes)):
        return None
    axes = [axis for axis in range(3) if text(lines[0].value) == f"tl.program_id({axis})"]
    has_axis = axes and all(len(grid(launch) or []) > axes[0] for launch in kernel.launches)
    return (pointer, name, axes[0]) if has_axis else None


def _is_size(kernel: RewritableKernel, box: Box, sizes: Sequence[str]) -> bool:
    """Return True if the number of elements of a matrix is written as a number, equal to that at every launch."""
    if len(sizes) != 1 or not sizes[0].isdecimal() or not set(box.shape) <= set(kernel.parameters):
        return False
    given = [[text(kernel.argument(launch, extent)) for extent in box.shape] for launch in kernel.launches]
    known = [[int(extent) for extent in extents if extent.isdecimal()] for extents in given]
    return all(len(extents) == 2 and prod(extents) == int(sizes[0]) for extents in known)


def _are_alone(kernel: RewritableKernel, left: SplitOperand, right: SplitOperand) -> bool:
    """Return True if nothing else reads the operands and their pointers."""
    names = [node.id for node in walk(kernel.function) if isinstance(node, ast.Name)]
    loaded = all(names.count(each.name) == 2 and names.count(each.pointer) == 1 for each in (left, right))
    return loaded and left.pointer != right.pointer
