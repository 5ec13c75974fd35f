"""Convolutions, which TorchInductor leaves to a library: our own kernels, specialised for one convolution.

A convolution is a product of two matrices. One has a row for every place of the output, with all inputs that the place
depends on; the other has a column for every filter. The first is never stored: its tiles are gathered. Places of a
transposed convolution with the same taps of a filter are computed together (a *phase*), which avoids products with
zeros. If every filter has its own channels, filters share no inputs, and a sum replaces the product.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from textwrap import indent

from workers.inductor_seeds.folding import fold
from workers.inductor_seeds.products import SHORTEST
from workers.inductor_seeds.runtime import count_blocks
from workers.protocol import Outcome
from workers.tracer.refusal import TraceRefused

LETTERS, EXTENTS = "DHW", ("depth", "height", "width")
"""Spatial axes. A convolution over one axis has only a width; unused axes have one place."""
PRODUCT_OPTIONS: Mapping[str, int] = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
"""Initial configuration of products: places, filters and taps per program, warps and stages."""
SUM_OPTIONS: Mapping[str, int] = {"BLOCK": 256, "num_warps": 4, "num_stages": 1}
"""Initial configuration if every filter has its own channels: outputs per program, warps and stages."""
_PARTS = {
    "CUT": """\
if MET_{0} * PHASES_{0} > TAPS_{0}:
    is_tap = is_tap & (filter_{1} < TAPS_{0})
""",
    "CLOSE_GAPS": """\
if GAP_{0} > 1:
    is_input = is_input & ({1} % GAP_{0} == 0)
    {1} = {1} // GAP_{0}
""",
}
"""Replacements of these names in both kernels, once per axis. A phase may have fewer taps than another. If inputs are
spread with both steps and gaps, only some of the places have an input."""

_PRODUCT = """
@triton.jit
def product(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, filters, out_depth, out_height, out_width,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    phase_w = tl.program_id(2) % PHASES_W
    phase_h = tl.program_id(2) // PHASES_W % PHASES_H
    phase_d = tl.program_id(2) // (PHASES_W * PHASES_H) % PHASES_D
    if GROUPS > 1:
        group = tl.program_id(2) // (PHASES_W * PHASES_H * PHASES_D)
    else:
        group = 0
    steps_w = tl.cdiv(out_width, PHASES_W)
    steps_h = tl.cdiv(out_height, PHASES_H)
    steps_d = tl.cdiv(out_depth, PHASES_D)
    place = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    image = place // (steps_w * steps_h * steps_d)
    step_w = (place % steps_w).to(tl.int32)
    step_h = (place // steps_w % steps_h).to(tl.int32)
    step_d = (place // (steps_w * steps_h) % steps_d).to(tl.int32)
    out_w = step_w * PHASES_W + phase_w
    out_h = step_h * PHASES_H + phase_h
    out_d = step_d * PHASES_D + phase_d
    is_place = image < images
    if PHASES_W > 1:
        is_place = is_place & (out_w < out_width)
    if PHASES_H > 1:
        is_place = is_place & (out_h < out_height)
    if PHASES_D > 1:
        is_place = is_place & (out_d < out_depth)
    if TRANSPOSED:
        start_w = step_w + (phase_w + PADDING_W) // PHASES_W
        start_h = step_h + (phase_h + PADDING_H) // PHASES_H
        start_d = step_d + (phase_d + PADDING_D) // PHASES_D
    else:
        start_w = out_w * STRIDE_W - PADDING_W
        start_h = out_h * STRIDE_H - PADDING_H
        start_d = out_d * STRIDE_D - PADDING_D
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    image_ptr = x_ptr + ((image * GROUPS + group) * channels * depth * height * width)[:, None]
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
    for start in range(0, channels * (MET_D * MET_H * MET_W), BLOCK_K):
        tap = start + tl.arange(0, BLOCK_K)
        tap_w = tap % MET_W
        tap_h = tap // MET_W % MET_H
        tap_d = tap // (MET_W * MET_H) % MET_D
        channel = tap // (MET_W * MET_H * MET_D)
        filter_w = (phase_w + PADDING_W) % PHASES_W + tap_w * PHASES_W
        filter_h = (phase_h + PADDING_H) % PHASES_H + tap_h * PHASES_H
        filter_d = (phase_d + PADDING_D) % PHASES_D + tap_d * PHASES_D
        is_tap = channel < channels
        CUT
        is_input = is_place[:, None] & is_tap[None, :]
        if TRANSPOSED:
            w = start_w[:, None] - (tap_w * DILATION_W)[None, :]
            h = start_h[:, None] - (tap_h * DILATION_H)[None, :]
            d = start_d[:, None] - (tap_d * DILATION_D)[None, :]
        else:
            w = start_w[:, None] + (tap_w * DILATION_W)[None, :]
            h = start_h[:, None] + (tap_h * DILATION_H)[None, :]
            d = start_d[:, None] + (tap_d * DILATION_D)[None, :]
        is_input = is_input & (w >= 0) & (h >= 0) & (d >= 0)
        CLOSE_GAPS
        is_input = is_input & (w < width) & (h < height) & (d < depth)
        values = tl.load(image_ptr + (((channel[None, :] * depth + d) * height + h) * width + w), is_input, other=0.0)
        if TRANSPOSED:
            row = (group * channels + channel) * filters * (TAPS_D * TAPS_H * TAPS_W)
            row = row + ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w)
            filters_ptr = weight_ptr + (row[:, None] + (column * (TAPS_D * TAPS_H * TAPS_W))[None, :])
        else:
            row = (group * filters + column) * (channels * (TAPS_D * TAPS_H * TAPS_W))
            filters_ptr = weight_ptr + (tap[:, None] + row[None, :])
        weights = tl.load(filters_ptr, is_tap[:, None] & (column < filters)[None, :], other=0.0)
        total = tl.dot(values, weights, total, PRECISION)
    spot = (out_d * out_height + out_h) * out_width + out_w
    target = ((image * GROUPS + group) * filters)[:, None] + column[None, :]
    target = target * (out_depth * out_height * out_width) + spot[:, None]
    tl.store(y_ptr + target, total, is_place[:, None] & (column < filters)[None, :])
"""

_SUM = """
@triton.jit
def add_up(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, out_depth, out_height, out_width,
           BLOCK: tl.constexpr):
    item = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    out_w = (item % out_width).to(tl.int32)
    out_h = (item // out_width % out_height).to(tl.int32)
    out_d = (item // (out_width * out_height) % out_depth).to(tl.int32)
    plane = item // (out_width * out_height * out_depth)
    group = (plane % GROUPS).to(tl.int32)
    is_item = plane < images * GROUPS
    if TRANSPOSED:
        start_w = (out_w + PADDING_W) // PHASES_W
        start_h = (out_h + PADDING_H) // PHASES_H
        start_d = (out_d + PADDING_D) // PHASES_D
    else:
        start_w = out_w * STRIDE_W - PADDING_W
        start_h = out_h * STRIDE_H - PADDING_H
        start_d = out_d * STRIDE_D - PADDING_D
    total = tl.zeros((BLOCK,), tl.float32)
    for channel in range(channels):
        for tap_d in range(MET_D):
            for tap_h in range(MET_H):
                for tap_w in range(MET_W):
                    filter_w = (out_w + PADDING_W) % PHASES_W + tap_w * PHASES_W
                    filter_h = (out_h + PADDING_H) % PHASES_H + tap_h * PHASES_H
                    filter_d = (out_d + PADDING_D) % PHASES_D + tap_d * PHASES_D
                    is_tap = is_item
                    CUT
                    if TRANSPOSED:
                        w = start_w - tap_w * DILATION_W
                        h = start_h - tap_h * DILATION_H
                        d = start_d - tap_d * DILATION_D
                    else:
                        w = start_w + tap_w * DILATION_W
                        h = start_h + tap_h * DILATION_H
                        d = start_d + tap_d * DILATION_D
                    is_input = is_tap & (w >= 0) & (h >= 0) & (d >= 0)
                    CLOSE_GAPS
                    is_input = is_input & (w < width) & (h < height) & (d < depth)
                    spot = (((plane * channels + channel) * depth + d) * height + h) * width + w
                    value = tl.load(x_ptr + spot, is_input, other=0.0)
                    row = tl.zeros((BLOCK,), tl.int32) + (group * channels + channel) * (TAPS_D * TAPS_H * TAPS_W)
                    row = row + ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w)
                    weight = tl.load(weight_ptr + row, is_tap, other=0.0)
                    total = total + value.to(tl.float32) * weight.to(tl.float32)
    tl.store(y_ptr + item, total, is_item)
"""


def read_convolution(
    call: ast.Call, weight: Sequence[ast.expr], y: Sequence[ast.expr], *, precision: str | None
) -> "Convolution":
    """Parse a convolution from Inductor's host code.

    Args:
        call: Call of `operations.CONVOLUTION`.
        weight: Extents of the filters, as code.
        y: Extents of the output.
        precision: As in `Convolution`.

    Raises:
        TraceRefused: If extents of its filters are not fixed.
    """
    if any(isinstance(item, ast.Name) for fixed in (*call.args[2:], *weight[2:]) for item in ast.walk(fixed)):
        raise TraceRefused(Outcome.FORBIDDEN_OP, "its convolution has filters whose extents are not fixed")
    stride, padding, dilation, transposed, _, groups = (ast.literal_eval(item) for item in call.args[2:])
    taps = [ast.literal_eval(extent) for extent in weight[2:]]
    filters = _number(weight[1] if transposed else y[1])
    if filters is not None and not transposed:
        filters //= groups
    axes = tuple(ConvolutionAxis(*axis) for axis in zip(taps, stride, padding, dilation, strict=True))
    return Convolution(axes, transposed, groups, filters, precision)


@dataclass(frozen=True)
class ConvolutionAxis:
    """A convolution along one spatial axis, with torch's arguments.

    Attributes:
        taps: Extent of a filter.
        stride: Input places per output place; output places per input place if it is transposed.
        padding: Places around the input.
        dilation: Distance between taps in places.
    """

    taps: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1


@dataclass(frozen=True)
class Convolution:
    """A convolution, without extents that are known only at run time.

    Attributes:
        axes: Its spatial axes, one to three.
        transposed: True if inputs are spread over places; otherwise places gather inputs.
        groups: Number of independent parts.
        filters: Filters per group; None if not fixed.
        precision: Input precision of `tl.dot`, such as `'ieee'`; None for the default.
    """

    axes: tuple[ConvolutionAxis, ...]
    transposed: bool
    groups: int
    filters: int | None
    precision: str | None

    @property
    def is_separate(self) -> bool:
        """True if every filter has its own channels."""
        return self.filters == 1

    @property
    def options(self) -> dict[str, int]:
        """Blocks, warps and stages of a launch."""
        if self.is_separate:
            return dict(SUM_OPTIONS)
        most = PRODUCT_OPTIONS["BLOCK_N"]
        columns = most if self.filters is None else 1 << (self.filters - 1).bit_length()
        return {**PRODUCT_OPTIONS, "BLOCK_N": min(most, max(SHORTEST, columns))}

    def arguments(self, x: Sequence[str], weight: Sequence[str], y: Sequence[str]) -> list[str]:
        """Return the kernel's arguments after its tensors, as code.

        Args:
            x: Extents of the input, as code.
            weight: Extents of the filters.
            y: Extents of the output.
        """
        channels = _part(x[1], self.groups) if self.transposed else weight[1]
        filters = () if self.is_separate else (self._columns(weight, y),)
        return [x[0], channels, *x[2:], *filters, *y[2:]]

    def grid(self, x: Sequence[str], weight: Sequence[str], y: Sequence[str]) -> str:
        """Return the grid of a launch as code. Extents are as for `arguments`."""
        if self.is_separate:
            return f"({count_blocks(_product_of(y), self.options['BLOCK'])},)"
        phases = [self._phases(axis) for axis in self.axes]
        steps = [count_blocks(place, kinds) for place, kinds in zip(y[2:], phases, strict=True)]
        rows = count_blocks(_product_of([y[0], *steps]), self.options["BLOCK_M"])
        columns = count_blocks(self._columns(weight, y), self.options["BLOCK_N"])
        parts = self.groups * prod(phases)
        return f"({rows}, {columns}{f', {parts}' if parts > 1 else ''})"

    def kernel(self) -> ast.FunctionDef:
        """Return the kernel. Its first three parameters are pointers to the input, the filters and the output."""
        text = _complete(_SUM if self.is_separate else _PRODUCT)
        precision = "" if self.precision is None else f", input_precision={self.precision!r}"
        function = ast.parse(text.replace(", PRECISION", precision)).body[0]
        assert isinstance(function, ast.FunctionDef)
        fold(function, self._numbers())
        return function

    def _columns(self, weight: Sequence[str], y: Sequence[str]) -> str:
        """Return the filters per group as code."""
        return weight[1] if self.transposed else _part(y[1], self.groups)

    def _phases(self, axis: ConvolutionAxis) -> int:
        """Return the number of phases along an axis."""
        return axis.stride if self.transposed and axis.dilation == 1 else 1

    def _numbers(self) -> dict[str, int]:
        """Return the constants of the specialised kernel."""
        unused = len(LETTERS) - len(self.axes)
        numbers = {"GROUPS": self.groups, "TRANSPOSED": int(self.transposed)}
        for extent in EXTENTS[:unused]:
            numbers |= {extent: 1, f"out_{extent}": 1}
        for letter, axis in zip(LETTERS, (ConvolutionAxis(),) * unused + self.axes, strict=True):
            phases = self._phases(axis)
            constants = {
                "TAPS": axis.taps,
                "STRIDE": axis.stride,
                "PADDING": axis.padding,
                "DILATION": axis.dilation,
                "PHASES": phases,
                "MET": -(-axis.taps // phases),
                "GAP": axis.stride // phases if self.transposed else 1,
            }
            numbers |= {f"{name}_{letter}": number for name, number in constants.items()}
        return numbers


def _complete(text: str) -> str:
    """Insert the common parts into a kernel's text."""

    def part(found: re.Match[str]) -> str:
        return indent("".join(_PARTS[found[2]].format(letter, letter.lower()) for letter in LETTERS[::-1]), found[1])

    return re.sub(rf"^( *)({'|'.join(_PARTS)})\n", part, text, flags=re.MULTILINE)


def _part(extent: str, groups: int) -> str:
    if groups == 1:
        return extent
    return str(int(extent) // groups) if extent.isdecimal() else f"({extent}) // {groups}"


def _product_of(factors: Sequence[str]) -> str:
    """Return a product as code, with its numbers multiplied."""
    number = prod(int(factor) for factor in factors if factor.isdecimal())
    code = [
        factor if factor.isidentifier() or factor.startswith("triton.cdiv(") else f"({factor})"
        for factor in factors
        if not factor.isdecimal()
    ]
    return " * ".join(([str(number)] if number != 1 or not code else []) + code)


def _number(extent: ast.expr) -> int | None:
    """Return an extent if it is fixed."""
    return extent.value if isinstance(extent, ast.Constant) and isinstance(extent.value, int) else None
