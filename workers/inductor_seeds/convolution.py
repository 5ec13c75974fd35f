"""Convolutions, which TorchInductor leaves to a library: our own kernels, specialised for one convolution.

A convolution is a product of two matrices. One has a row for every place of the output, with all inputs that the place
depends on; the other has a column for every filter. The first is never stored: its tiles are gathered. Places of a
transposed convolution with the same taps of a filter are computed together (a *phase*), which avoids products with
zeros. If every filter has its own channels, filters share no inputs, and a sum replaces the product.
"""

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd, prod

from workers.inductor_seeds.convolution_kernels import EVEN, EXTENTS, LETTERS, PACK, PRODUCT, ROWS, SUM, complete
from workers.inductor_seeds.folding import fold, number_of
from workers.inductor_seeds.products import SHORTEST
from workers.inductor_seeds.runtime import count_blocks
from workers.protocol import Outcome
from workers.tracer.refusal import TraceRefused

MOST_UNROLLED = 160
"""Maximum taps, over all channels, of a loop that is unrolled. Otherwise each thread divides for each of its taps."""
PRODUCT_OPTIONS: Mapping[str, int] = {"BLOCK_M": 128, "BLOCK_N": 128, "BLOCK_K": 32, "num_warps": 8, "num_stages": 3}
"""Initial configuration of products: places, filters and taps per program, warps and stages."""
EXACT_OPTIONS: Mapping[str, int] = {"BLOCK_M": 128, "BLOCK_N": 64, "BLOCK_K": 32, "num_warps": 4, "num_stages": 2}
"""Initial configuration of float32 products without TF32, whose multiplications the compiler unrolls."""
FEWEST_PROGRAMS, SMALLEST_SIDE = 128, 64
"""Minimum programs of a product, about one for each processor of a large GPU, and the side of a tile that is halved no
more for them."""
SUM_OPTIONS: Mapping[str, int] = {"BLOCK": 256, "num_warps": 4, "num_stages": 1}
"""Initial configuration if every filter has its own channels: outputs per program, warps and stages."""
PACKED, PACK_CHANNELS, MOST_PACKED = 4096, 64, 512
"""Elements per program of copies with the channels last, channels of them at most, and places at most."""
WARP = 32
"""Threads of a warp."""
FEWEST_USES = 256
"""Minimum products per input element for a copy of the input. A copy moves 8 bytes per element, which takes 2.7 ps at
3 TB/s; 256 products take 5.1 ps at 100 TFLOP/s, half of them if loads are wide."""


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
    stride, padding, dilation, transposed, extra, groups = (ast.literal_eval(item) for item in call.args[2:])
    taps = [ast.literal_eval(extent) for extent in weight[2:]]
    filters = number_of(weight[1] if transposed else y[1])
    if filters is not None and not transposed:
        filters //= groups
    sizes = ConvolutionSizes(most[0] // groups, most[1] if transposed else most[2] // groups, far, wide)
    axes = tuple(ConvolutionAxis(*axis) for axis in zip(taps, stride, padding, dilation, extra, strict=True))
    channels = number_of(weight[0] if transposed else weight[1])
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
        extra: Places after the output of a transposed convolution.
    """

    taps: int = 1
    stride: int = 1
    padding: int = 0
    dilation: int = 1
    extra: int = 0


@dataclass(frozen=True)
class ConvolutionSizes:
    """Maximum extents of a convolution at its operator's sizes.

    Attributes:
        channels: Channels of the input per group.
        filters: Filters per group.
        far: True if an index of the input may need more than 32 bits.
        wide: True if an index of the output may.
        places: Places of the output, of all images.
    """

    channels: int
    filters: int
    far: bool = True
    wide: bool = True
    places: int = 2**31


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
        is_one_part = self.groups == 1 or not self.transposed
        is_used = self._met > 1 and taps * self.sizes.filters >= FEWEST_USES
        return is_used and is_one_part and not self.is_separate and self._row >= SHORTEST

    @property
    def options(self) -> dict[str, int]:
        """Blocks, warps and stages of a launch."""
        if self.is_separate:
            return dict(SUM_OPTIONS)
        chosen = dict(EXACT_OPTIONS if self.precision == "ieee" else PRODUCT_OPTIONS)
        taps = prod(axis.taps for axis in self.axes)
        summed = self._row if self.is_packed else self.sizes.channels * taps
        chosen["BLOCK_N"] = min(chosen["BLOCK_N"], block_of(self.filters or self.sizes.filters))
        chosen["BLOCK_K"] = min(chosen["BLOCK_K"], block_of(summed))
        while self._programs(chosen) < FEWEST_PROGRAMS and max(chosen["BLOCK_M"], chosen["BLOCK_N"]) > SMALLEST_SIDE:
            side = "BLOCK_M" if chosen["BLOCK_M"] >= chosen["BLOCK_N"] else "BLOCK_N"
            chosen[side] //= 2
        is_wide = chosen["BLOCK_M"] * chosen["BLOCK_N"] > EXACT_OPTIONS["BLOCK_M"] * EXACT_OPTIONS["BLOCK_N"]
        chosen["num_warps"] = min(chosen["num_warps"], 8 if is_wide else 4)
        return chosen

    def _programs(self, options: Mapping[str, int]) -> int:
        """Return the number of programs of a product at its largest size."""
        filters = self.filters or self.sizes.filters
        return -(-self.sizes.places // options["BLOCK_M"]) * -(-filters // options["BLOCK_N"]) * self.groups

    @property
    def results_per_thread(self) -> int:
        """Results of a thread."""
        options = self.options
        results = options["BLOCK"] if self.is_separate else options["BLOCK_M"] * options["BLOCK_N"]
        return results // (options["num_warps"] * WARP)

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
        phases = [self._ways(axis).phases for axis in self.axes]
        steps = [count_blocks(place, kinds) for place, kinds in zip(y[2:], phases, strict=True)]
        rows = count_blocks(product_of([y[0], *steps]), self.options["BLOCK_M"])
        columns = count_blocks(self._columns(weight, y), self.options["BLOCK_N"])
        groups = f", {self.groups}" if self.groups > 1 else ""
        return f"({product_of([rows, str(prod(phases))])}, {columns}{groups})"

    def copies(self, x: Sequence[str], weight: Sequence[str]) -> tuple["ChannelsLast", "ChannelsLast"]:
        """Return the copies of input and filters with their channels last. Extents are as for `arguments`."""
        places, taps = product_of(x[2:]), product_of(weight[2:])
        around = [self._ways(axis).around for axis in self.axes]
        sides = [sum(each) for each in around]
        full = product_of([f"{extent} + {side}" if side else extent for extent, side in zip(x[2:], sides, strict=True)])
        filters, channels = (weight[1], weight[0]) if self.transposed else (weight[0], weight[1])
        part = _part(x[1], self.groups)
        near, far = taps, product_of([weight[1], taps])
        return (
            ChannelsLast(
                (product_of([x[0], str(self.groups)]), full, _even(part)),
                product_of([x[0], str(self.groups)]),
                full,
                part,
                (product_of([part, places]), places, product_of([full, _even(part)]), _even(part)),
                tuple(around) if any(sides) else (),
                tuple(x[2:]) if any(sides) else (),
            ),
            ChannelsLast(
                (taps, filters, _even(channels)),
                filters,
                taps,
                channels,
                (
                    *((near, far) if self.transposed else (far, near)),
                    _even(channels),
                    product_of([filters, _even(channels)]),
                ),
            ),
        )

    def kernel(self) -> ast.FunctionDef:
        """Return the kernel.

        Its first three parameters are pointers to the input, the filters and the output, and its last line stores
        `total` at `target` where `is_target`.
        """
        text = complete(SUM if self.is_separate else ROWS if self.is_packed else PRODUCT)
        precision = "" if self.precision is None else f", input_precision={self.precision!r}"
        turns = "tl.static_range" if self._is_short else "range"
        function = ast.parse(text.replace(", PRECISION", precision).replace("ALL_TAPS", turns)).body[0]
        assert isinstance(function, ast.FunctionDef)
        fold(function, self._numbers())
        return function

    @property
    def _is_short(self) -> bool:
        """True if the loop over taps is unrolled, so that the compiler knows every tap's place."""
        return self.channels is not None and self.channels * self._met <= MOST_UNROLLED and self.precision != "ieee"

    @property
    def _met(self) -> int:
        """Taps of a filter that meet inputs at a place, at most."""
        return prod(self._ways(axis).met for axis in self.axes)

    @property
    def _row(self) -> int:
        """Maximum elements side by side that a place depends on: channels, of all taps along the width if in rows."""
        width = self.axes[-1]
        taps = self._ways(width).met if self._ways(width).rise == 1 else 1
        return taps * self.sizes.channels

    def _columns(self, weight: Sequence[str], y: Sequence[str]) -> str:
        """Return the filters per group as code."""
        return weight[1] if self.transposed else _part(y[1], self.groups)

    def _ways(self, axis: ConvolutionAxis) -> "_Ways":
        return _Ways(axis, transposed=self.transposed)

    def _numbers(self) -> dict[str, int]:
        """Return the constants of the specialised kernel."""
        unused = len(LETTERS) - len(self.axes)
        numbers = {"GROUPS": self.groups, "TRANSPOSED": int(self.transposed), "EVEN": EVEN}
        numbers |= {"ROUNDED": int(self.rounded), **self.fixed}
        if self.channels is not None:
            numbers["channels"] = self.channels
        numbers |= {"FAR": int(self.sizes.far), "WIDE": int(self.sizes.wide)}
        numbers["IN_ROWS"] = int(self._ways(self.axes[-1]).rise == 1)
        for extent in EXTENTS[:unused]:
            numbers |= {extent: 1, f"out_{extent}": 1}
        for letter, axis in zip(LETTERS, (None,) * unused + self.axes, strict=True):
            ways = self._ways(axis or ConvolutionAxis())
            is_bounded = axis is not None and (self.transposed or axis.padding > 0)
            constants = ways.constants | {"EDGE": int(is_bounded)}
            numbers |= {f"{name}_{letter}": number for name, number in constants.items()}
        return numbers


@dataclass(frozen=True)
class _Ways:
    """How places and inputs of a convolution meet along one axis.

    Attributes:
        axis: The axis.
        transposed: As in `Convolution`.
    """

    axis: ConvolutionAxis
    transposed: bool

    @property
    def phases(self) -> int:
        """Number of phases."""
        return self.axis.stride if self.transposed else 1

    @property
    def common(self) -> int:
        """Greatest common divisor of stride and dilation of a transposed convolution: other places have no taps."""
        return gcd(self.axis.stride, self.axis.dilation) if self.transposed else 1

    @property
    def apart(self) -> int:
        """Distance in the filter of taps of the same phase."""
        return self.phases // self.common

    @property
    def met(self) -> int:
        """Taps of a phase, at most."""
        return -(-self.axis.taps // self.apart)

    @property
    def rise(self) -> int:
        """Distance of the inputs that neighbouring taps of a phase meet."""
        return self.axis.dilation // self.common

    @property
    def around(self) -> tuple[int, int]:
        """Places before and after the inputs that taps meet."""
        axis = self.axis
        if not self.transposed:
            return axis.padding, axis.padding
        reach = (axis.taps - 1) * axis.dilation
        return max(0, (reach - axis.padding) // axis.stride), max(0, (reach + axis.extra - axis.padding) // axis.stride)

    @property
    def constants(self) -> dict[str, int]:
        """Numbers by their names in the kernels."""
        axis, (before, after) = self.axis, self.around
        return {
            "TAPS": axis.taps,
            "STRIDE": axis.stride,
            "PADDING": axis.padding,
            "DILATION": axis.dilation,
            "PHASES": self.phases,
            "COMMON": self.common,
            "APART": self.apart,
            "INVERSE": pow(axis.dilation // self.common, -1, self.apart) if self.apart > 1 else 0,
            "MET": self.met,
            "RISE": self.rise,
            "REACH": -self.rise if self.transposed else self.rise,
            "BEFORE": before,
            "AFTER": after,
        }


@dataclass(frozen=True)
class ChannelsLast:
    """Copy of a tensor with its channels last, as arguments of `packing` in host code.

    Attributes:
        shape: Extents of the copy.
        parts: Number of parts.
        places: Places per part of the copy.
        channels: Channels per place of the tensor.
        steps: Distance between parts and between channels in the tensor, then between parts and places in the copy.
        around: Zeros before and after along each axis; empty if there are none.
        extents: Extents of these axes in the tensor.
    """

    shape: tuple[str, str, str]
    parts: str
    places: str
    channels: str
    steps: tuple[str, str, str, str]
    around: tuple[tuple[int, int], ...] = ()
    extents: tuple[str, ...] = ()

    @property
    def arguments(self) -> list[str]:
        """Arguments of the kernel after its tensors."""
        return [self.places, self.channels, *self.steps, *self.extents]

    def options(self, most: int) -> dict[str, int]:
        """Return places and channels per program, warps and stages, for so many channels at most."""
        channels = min(PACK_CHANNELS, 1 << (max(EVEN, most) - 1).bit_length())
        return {"BLOCK_M": min(MOST_PACKED, PACKED // channels), "BLOCK_N": channels, "num_warps": 4, "num_stages": 1}

    def grid(self, options: Mapping[str, int]) -> str:
        """Return the grid of a launch as code."""
        places = count_blocks(self.places, options["BLOCK_M"])
        return f"({product_of([self.parts, places])}, {count_blocks(self.channels, options['BLOCK_N'])})"

    def kernel(self, *, rounded: bool) -> ast.FunctionDef:
        """Return the kernel, that rounds float32 to TF32 if `rounded`."""
        function = ast.parse(complete(PACK)).body[0]
        assert isinstance(function, ast.FunctionDef)
        numbers = {"ROUNDED": int(rounded), "EVEN": EVEN, "AROUND": int(bool(self.around))}
        unused = len(LETTERS) - len(self.around)
        numbers |= dict.fromkeys(EXTENTS[:unused], 1)
        for letter, (before, after) in zip(LETTERS, ((0, 0),) * unused + self.around, strict=True):
            numbers |= {f"BEFORE_{letter}": before, f"AFTER_{letter}": after, f"EDGE_{letter}": int(before + after > 0)}
        fold(function, numbers)
        return function


def block_of(extent: int) -> int:
    """Return the smallest block of a product that covers an extent."""
    return max(SHORTEST, 1 << (extent - 1).bit_length())


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


def _even(channels: str) -> str:
    """Return channels of a copy as code."""
    if channels.isdecimal():
        return str(-(-int(channels) // EVEN) * EVEN)
    return f"{count_blocks(channels, EVEN)} * {EVEN}"
