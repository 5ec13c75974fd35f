"""Convolutions, which TorchInductor leaves to a library: our own kernels, specialised for one convolution.

A convolution is a product of two matrices. One has a row for every place of the output, with all inputs that the place
depends on; the other has a column for every filter. The first is never stored: its tiles are gathered. Places of a
transposed convolution with the same taps of a filter are computed together (a *phase*), which avoids products with
zeros. If every filter has its own channels, filters share no inputs, and a sum replaces the product.
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from textwrap import indent

from workers.inductor_seeds.folding import fold
from workers.inductor_seeds.products import SHORTEST
from workers.inductor_seeds.runtime import count_blocks
from workers.protocol import Outcome
from workers.tracer.refusal import TraceRefused

MOST_UNROLLED = 160
"""Maximum taps, over all channels, of a loop that is unrolled. Otherwise each thread divides for each of its taps."""
LETTERS, EXTENTS = "DHW", ("depth", "height", "width")
"""Spatial axes. A convolution over one axis has only a width; unused axes have one place."""
PRODUCT_OPTIONS: Mapping[str, int] = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3}
"""Initial configuration of products: places, filters and taps per program, warps and stages."""
EXACT_OPTIONS: Mapping[str, int] = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
"""Initial configuration of float32 products without TF32, whose multiplications the compiler unrolls."""
SUM_OPTIONS: Mapping[str, int] = {"BLOCK": 256, "num_warps": 4, "num_stages": 1}
"""Initial configuration if every filter has its own channels: outputs per program, warps and stages."""
PACK_OPTIONS: Mapping[str, int] = {"BLOCK_M": 64, "BLOCK_N": 64, "num_warps": 4, "num_stages": 1}
"""Initial configuration of copies with the channels last: places and channels per program, warps and stages."""
FEWEST_USES = 256
"""Minimum products per input element for a copy of the input. A copy moves 8 bytes per element, which takes 2.7 ps at
3 TB/s; 256 products take 5.1 ps at 100 TFLOP/s, half of them if loads are wide."""
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
    "BOUND": """\
if EDGE_{0}:
    is_input = is_input & ({1} >= 0) & ({1} < {2})
""",
}
"""Replacements of these names in the kernels, once per axis. A phase may have fewer taps than another. If inputs are
spread with both steps and gaps, only some of the places have an input. Without padding every tap meets an input."""

_START = """
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
    if WIDE:
        place = tl.program_id(0).to(tl.int64) * BLOCK_M + tl.arange(0, BLOCK_M)
    else:
        place = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
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
    is_column = column < filters
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
"""
"""Beginning of both kernels with a product: the places and filters of a program."""

_TAPS = """
        tap_w = tap % MET_W
        tap_h = tap // MET_W % MET_H
        tap_d = tap // (MET_W * MET_H) % MET_D
        filter_w = (phase_w + PADDING_W) % PHASES_W + tap_w * PHASES_W
        filter_h = (phase_h + PADDING_H) % PHASES_H + tap_h * PHASES_H
        filter_d = (phase_d + PADDING_D) % PHASES_D + tap_d * PHASES_D
"""

_END = """
        total = tl.dot(values, weights, total, PRECISION)
    spot = (out_d * out_height + out_h) * out_width + out_w
    target = ((image * GROUPS + group) * filters * (out_depth * out_height * out_width) + spot)[:, None]
    target = target + (column * (out_depth * out_height * out_width))[None, :]
    is_target = is_place[:, None] & is_column[None, :]
    tl.store(y_ptr + target, total, is_target)
"""

_PRODUCT = f"""
@triton.jit
def product(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, filters, out_depth, out_height, out_width,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    {_START.strip()}
    if FAR:
        plane = (image.to(tl.int64) * GROUPS + group) * channels * (depth * height * width)
    else:
        plane = (image * GROUPS + group) * channels * (depth * height * width)
    if GAPS:
        places = plane
    else:
        places = plane + ((start_d * height + start_h) * width + start_w)
    for start in ALL_TAPS(0, channels * (MET_D * MET_H * MET_W), BLOCK_K):
        tap = start + tl.arange(0, BLOCK_K)
        {_TAPS.strip()}
        channel = tap // (MET_W * MET_H * MET_D)
        is_tap = channel < channels
        CUT
        is_input = is_tap[:, None] & is_place[None, :]
        w = (tap_w * REACH_W)[:, None] + start_w[None, :]
        h = (tap_h * REACH_H)[:, None] + start_h[None, :]
        d = (tap_d * REACH_D)[:, None] + start_d[None, :]
        CLOSE_GAPS
        BOUND
        if GAPS:
            offset = ((channel[:, None] * depth + d) * height + h) * width + w
        else:
            offset = ((channel * depth + tap_d * REACH_D) * height + tap_h * REACH_H) * width + tap_w * REACH_W
            offset = offset[:, None]
        values = tl.trans(tl.load(x_ptr + (places[None, :] + offset), is_input, other=0.0))
        if TRANSPOSED:
            row = (group * channels + channel) * filters * (TAPS_D * TAPS_H * TAPS_W)
            row = row + ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w)
            filters_ptr = weight_ptr + (row[:, None] + (column * (TAPS_D * TAPS_H * TAPS_W))[None, :])
        else:
            row = (group * filters + column) * (channels * (TAPS_D * TAPS_H * TAPS_W))
            filters_ptr = weight_ptr + (tap[:, None] + row[None, :])
        weights = tl.load(filters_ptr, is_tap[:, None] & is_column[None, :], other=0.0)
        if ROUNDED:
            near = ((values.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
            values = tl.where(values == values, near, values)
            close = ((weights.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
            weights = tl.where(weights == weights, close, weights)
        {_END.strip()}
"""

_LAST = f"""
@triton.jit
def product(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, filters, out_depth, out_height, out_width,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    {_START.strip()}
    image_ptr = x_ptr + (image.to(tl.int64) * (depth * height * width) * (GROUPS * channels) + group * channels)
    parts = tl.cdiv(channels, BLOCK_K)
    for step in range(0, parts * (MET_D * MET_H * MET_W)):
        tap = step // parts
        channel = step % parts * BLOCK_K + tl.arange(0, BLOCK_K)
        {_TAPS.strip()}
        is_tap = channel < channels
        CUT
        is_input = is_place
        w = start_w + tap_w * REACH_W
        h = start_h + tap_h * REACH_H
        d = start_d + tap_d * REACH_D
        CLOSE_GAPS
        BOUND
        places_ptr = image_ptr + ((d * height + h) * width + w) * (GROUPS * channels)
        is_value = is_input[:, None] & is_tap[None, :]
        values = tl.load(places_ptr[:, None] + channel[None, :], is_value, other=0.0)
        row = ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w) * (GROUPS * filters) + group * filters
        filters_ptr = weight_ptr + (channel[:, None] + ((row + column) * channels)[None, :])
        weights = tl.load(filters_ptr, is_tap[:, None] & is_column[None, :], other=0.0)
        {_END.strip()}
"""
"""Product whose input and filters have their channels last. Its loop is over taps, then channels, so a place needs one
address and one bound per tap, and loads are wide."""

_PACK = """
@triton.jit
def pack(x_ptr, y_ptr, places, channels, x_part, x_channel, y_part, y_place, BLOCK_M: tl.constexpr,
         BLOCK_N: tl.constexpr):
    blocks = tl.cdiv(places, BLOCK_M)
    part = (tl.program_id(0) // blocks).to(tl.int64)
    place = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inside = (place < places)[:, None] & (channel < channels)[None, :]
    source = part * x_part + (channel.to(tl.int64) * x_channel)[None, :] + place[:, None]
    target = part * y_part + (place.to(tl.int64) * y_place)[:, None] + channel[None, :]
    value = tl.load(x_ptr + source, inside)
    if ROUNDED:
        near = ((value.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
        value = tl.where(value == value, near, value)
    tl.store(y_ptr + target, value, inside)
"""
"""Copy of a tensor with its channels last, part by part. Float32 factors of TF32 products are rounded to the nearest
on the way: matrix units cut them instead, and errors of one sign add up."""

_SUM = """
@triton.jit
def add_up(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, out_depth, out_height, out_width,
           BLOCK: tl.constexpr):
    if WIDE:
        target = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    else:
        target = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    out_w = (target % out_width).to(tl.int32)
    out_h = (target // out_width % out_height).to(tl.int32)
    out_d = (target // (out_width * out_height) % out_depth).to(tl.int32)
    plane = target // (out_width * out_height * out_depth)
    group = (plane % GROUPS).to(tl.int32)
    is_target = plane < images * GROUPS
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
                    is_tap = is_target
                    CUT
                    is_input = is_tap
                    w = start_w + tap_w * REACH_W
                    h = start_h + tap_h * REACH_H
                    d = start_d + tap_d * REACH_D
                    CLOSE_GAPS
                    BOUND
                    spot = (((plane.to(tl.int64) * channels + channel) * depth + d) * height + h) * width + w
                    value = tl.load(x_ptr + spot, is_input, other=0.0)
                    row = tl.zeros((BLOCK,), tl.int32) + (group * channels + channel) * (TAPS_D * TAPS_H * TAPS_W)
                    row = row + ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w)
                    weight = tl.load(weight_ptr + row, is_tap, other=0.0)
                    total = total + value.to(tl.float32) * weight.to(tl.float32)
    tl.store(y_ptr + target, total, is_target)
"""


def read_convolution(
    call: ast.Call,
    weight: Sequence[ast.expr],
    y: Sequence[ast.expr],
    most: Sequence[int],
    *,
    far: bool,
    wide: bool,
    precision: str | None,
) -> "Convolution":
    """Parse a convolution from Inductor's host code.

    Args:
        call: Call of `operations.CONVOLUTION`.
        weight: Extents of the filters, as code.
        y: Extents of the output.
        most: Maximum of the second extent of the input, the filters and the output.
        far: As in `ConvolutionSizes`.
        wide: As in `ConvolutionSizes`.
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
    sizes = ConvolutionSizes(most[0] // groups, most[1] if transposed else most[2] // groups, far, wide)
    axes = tuple(ConvolutionAxis(*axis) for axis in zip(taps, stride, padding, dilation, strict=True))
    channels = _number(weight[0] if transposed else weight[1])
    if channels is not None and transposed:
        channels //= groups
    return Convolution(axes, transposed, groups, channels, filters, sizes, precision)


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
class ConvolutionSizes:
    """Maximum extents of a convolution at its operator's sizes.

    Attributes:
        channels: Channels of the input per group.
        filters: Filters per group.
        far: True if an index of the input may need more than 32 bits.
        wide: True if an index of the output may.
    """

    channels: int
    filters: int
    far: bool = True
    wide: bool = True


@dataclass(frozen=True)
class Convolution:
    """A convolution, without extents that are known only at run time.

    Attributes:
        axes: Its spatial axes, one to three.
        transposed: True if inputs are spread over places; otherwise places gather inputs.
        groups: Number of independent parts.
        channels: Channels of the input per group; None if not fixed.
        filters: Filters per group; None if not fixed.
        sizes: Maximum extents, which only choose between equally right kernels and blocks.
        precision: Input precision of `tl.dot`, such as `'ieee'`; None for the default.
        rounded: True if float32 factors are rounded to TF32. Copies are rounded already.
        fixed: Numbers by name of a parameter, for a kernel of one shape: the compiler knows what it divides by.
    """

    axes: tuple[ConvolutionAxis, ...]
    transposed: bool
    groups: int
    channels: int | None
    filters: int | None
    sizes: ConvolutionSizes
    precision: str | None
    rounded: bool = False
    fixed: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_separate(self) -> bool:
        """True if every filter has its own channels."""
        return self.filters == 1

    @property
    def is_packed(self) -> bool:
        """True if input and filters are first copied with their channels last."""
        taps = prod(axis.taps for axis in self.axes)
        met = prod(-(-axis.taps // self._phases(axis)) for axis in self.axes)
        is_one_part = self.groups == 1 or not self.transposed
        is_used = met > 1 and taps * self.sizes.filters >= FEWEST_USES
        return is_used and is_one_part and not self.is_separate and self.sizes.channels >= SHORTEST

    @property
    def options(self) -> dict[str, int]:
        """Blocks, warps and stages of a launch."""
        if self.is_separate:
            return dict(SUM_OPTIONS)
        chosen = dict(EXACT_OPTIONS if self.precision == "ieee" else PRODUCT_OPTIONS)
        summed = self.sizes.channels * (1 if self.is_packed else prod(axis.taps for axis in self.axes))
        chosen["BLOCK_N"] = min(chosen["BLOCK_N"], block_of(self.filters or self.sizes.filters))
        chosen["BLOCK_K"] = min(chosen["BLOCK_K"], block_of(summed))
        chosen["num_warps"] = min(chosen["num_warps"], 4 if chosen["BLOCK_N"] <= EXACT_OPTIONS["BLOCK_N"] else 8)
        return chosen

    @property
    def parameters(self) -> list[str]:
        """Names of the kernel's parameters, apart from blocks."""
        return [item.arg for item in self.kernel().args.args if item.annotation is None]

    def arguments(self, x: Sequence[str], weight: Sequence[str], y: Sequence[str]) -> list[str]:
        """Return the kernel's arguments after its tensors, as code.

        Args:
            x: Extents of the input, as code.
            weight: Extents of the filters.
            y: Extents of the output.
        """
        channels = _part(x[1], self.groups) if self.transposed else weight[1]
        filters = () if self.is_separate else (self._columns(weight, y),)
        return [x[0], *((channels,) if self.channels is None else ()), *x[2:], *filters, *y[2:]]

    def grid(self, x: Sequence[str], weight: Sequence[str], y: Sequence[str]) -> str:
        """Return the grid of a launch as code. Extents are as for `arguments`."""
        if self.is_separate:
            return f"({count_blocks(product_of(y), self.options['BLOCK'])},)"
        phases = [self._phases(axis) for axis in self.axes]
        steps = [count_blocks(place, kinds) for place, kinds in zip(y[2:], phases, strict=True)]
        rows = count_blocks(product_of([y[0], *steps]), self.options["BLOCK_M"])
        columns = count_blocks(self._columns(weight, y), self.options["BLOCK_N"])
        parts = self.groups * prod(phases)
        return f"({rows}, {columns}{f', {parts}' if parts > 1 else ''})"

    def copies(self, x: Sequence[str], weight: Sequence[str]) -> tuple["ChannelsLast", "ChannelsLast"]:
        """Return the copies of input and filters with their channels last. Extents are as for `arguments`."""
        places, taps = product_of(x[2:]), product_of(weight[2:])
        image = product_of([x[1], *x[2:]])
        filters, channels = (weight[1], weight[0]) if self.transposed else (weight[0], weight[1])
        near, far = taps, product_of([weight[1], taps])
        return (
            ChannelsLast((x[0], places, x[1]), x[0], places, x[1], (image, places, image, x[1])),
            ChannelsLast(
                (taps, filters, channels),
                filters,
                taps,
                channels,
                (*((near, far) if self.transposed else (far, near)), channels, product_of([filters, channels])),
            ),
        )

    def kernel(self) -> ast.FunctionDef:
        """Return the kernel.

        Its first three parameters are pointers to the input, the filters and the output, and its last line stores
        `total` at `target` where `is_target`.
        """
        text = _complete(_SUM if self.is_separate else _LAST if self.is_packed else _PRODUCT)
        precision = "" if self.precision is None else f", input_precision={self.precision!r}"
        turns = "tl.static_range" if self._is_short else "range"
        function = ast.parse(text.replace(", PRECISION", precision).replace("ALL_TAPS", turns)).body[0]
        assert isinstance(function, ast.FunctionDef)
        fold(function, self._numbers())
        return function

    @property
    def _is_short(self) -> bool:
        """True if the loop over taps is unrolled, so that the compiler knows every tap's place."""
        taps = prod(-(-axis.taps // self._phases(axis)) for axis in self.axes)
        return self.channels is not None and self.channels * taps <= MOST_UNROLLED and self.precision != "ieee"

    def _columns(self, weight: Sequence[str], y: Sequence[str]) -> str:
        """Return the filters per group as code."""
        return weight[1] if self.transposed else _part(y[1], self.groups)

    def _phases(self, axis: ConvolutionAxis) -> int:
        """Return the number of phases along an axis."""
        return axis.stride if self.transposed and axis.dilation == 1 else 1

    def _numbers(self) -> dict[str, int]:
        """Return the constants of the specialised kernel."""
        unused = len(LETTERS) - len(self.axes)
        numbers = {"GROUPS": self.groups, "TRANSPOSED": int(self.transposed), "GAPS": 0}
        numbers |= {"ROUNDED": int(self.rounded), **self.fixed}
        if self.channels is not None:
            numbers["channels"] = self.channels
        numbers |= {"FAR": int(self.sizes.far), "WIDE": int(self.sizes.wide)}
        for extent in EXTENTS[:unused]:
            numbers |= {extent: 1, f"out_{extent}": 1}
        for letter, axis in zip(LETTERS, (None,) * unused + self.axes, strict=True):
            along = axis or ConvolutionAxis()
            phases = self._phases(along)
            constants = {
                "TAPS": along.taps,
                "STRIDE": along.stride,
                "PADDING": along.padding,
                "REACH": -along.dilation if self.transposed else along.dilation,
                "PHASES": phases,
                "MET": -(-along.taps // phases),
                "GAP": along.stride // phases if self.transposed else 1,
                "EDGE": int(axis is not None and (self.transposed or axis.padding > 0)),
            }
            numbers |= {f"{name}_{letter}": number for name, number in constants.items()}
            numbers["GAPS"] |= constants["GAP"] > 1
        return numbers


@dataclass(frozen=True)
class ChannelsLast:
    """Copy of a tensor with its channels last, as arguments of `packing` in host code.

    Attributes:
        shape: Extents of the copy.
        parts: Number of parts.
        places: Places per part.
        channels: Channels per place.
        steps: Distance between parts and between channels in the tensor, then between parts and places in the copy.
    """

    shape: tuple[str, str, str]
    parts: str
    places: str
    channels: str
    steps: tuple[str, str, str, str]

    def grid(self, options: Mapping[str, int]) -> str:
        """Return the grid of a launch as code, for blocks as in `PACK_OPTIONS`."""
        places = count_blocks(self.places, options["BLOCK_M"])
        return f"({product_of([self.parts, places])}, {count_blocks(self.channels, options['BLOCK_N'])})"


def packing(*, rounded: bool) -> ast.FunctionDef:
    """Return the kernel of `ChannelsLast`, that rounds float32 to TF32 if `rounded`."""
    function = ast.parse(_PACK).body[0]
    assert isinstance(function, ast.FunctionDef)
    fold(function, {"ROUNDED": int(rounded)})
    return function


def block_of(extent: int) -> int:
    """Return the smallest block of a product that covers an extent."""
    return max(SHORTEST, 1 << (extent - 1).bit_length())


def _complete(text: str) -> str:
    """Insert the common parts into a kernel's text."""
    axes = [(letter, letter.lower(), extent) for letter, extent in zip(LETTERS[::-1], EXTENTS[::-1], strict=True)]

    def part(found: re.Match[str]) -> str:
        return indent("".join(_PARTS[found[2]].format(*axis) for axis in axes), found[1])

    return re.sub(rf"^( *)({'|'.join(_PARTS)})\n", part, text, flags=re.MULTILINE)


def _part(extent: str, groups: int) -> str:
    if groups == 1:
        return extent
    return str(int(extent) // groups) if extent.isdecimal() else f"({extent}) // {groups}"


def product_of(factors: Sequence[str]) -> str:
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
