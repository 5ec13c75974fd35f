"""Kernels of convolutions as texts, whose names in capitals are numbers that `folding` puts in.

`SUM` is for filters with channels of their own, `ROWS` reads copies that `PACK` makes, `PRODUCT` gathers its inputs.
Their first three parameters are pointers to the input, the filters and the output, and their last line stores `total`
at `target` where `is_target`.
"""

import re
from textwrap import indent

LETTERS, EXTENTS = "DHW", ("depth", "height", "width")
"""Spatial axes. A convolution over one axis has only a width; unused axes have one place."""
EVEN = 4
"""Channels of a copy are a multiple of it, so that loads move 16 bytes of float32 or 8 of 16-bit floats."""
_PARTS = {
    "SETTLE": """\
if TRANSPOSED:
    first_{1} = (phase_{1} + PADDING_{0}) // COMMON_{0} * INVERSE_{0} % APART_{0}
    start_{1} = step_{1} + (phase_{1} + PADDING_{0} - first_{1} * DILATION_{0}) // PHASES_{0}
else:
    start_{1} = out_{1} * STRIDE_{0} - PADDING_{0}
""",
    "MEET": """\
if TRANSPOSED:
    if MET_{0} * APART_{0} > TAPS_{0}:
        some_{1} = (TAPS_{0} - first_{1} + (APART_{0} - 1)) // APART_{0}
    else:
        some_{1} = MET_{0}
    if COMMON_{0} > 1:
        met_{1} = tl.where((phase_{1} + PADDING_{0}) % COMMON_{0} == 0, some_{1}, 0)
    else:
        met_{1} = some_{1}
    low_{1} = start_{1} + (BEFORE_{0} + RISE_{0}) - met_{1} * RISE_{0}
else:
    met_{1} = TAPS_{0}
    low_{1} = out_{1} * STRIDE_{0}
""",
    "FILTER": """\
if TRANSPOSED:
    filter_{1} = first_{1} + tap_{1} * APART_{0}
else:
    filter_{1} = tap_{1}
""",
    "CUT": """\
if MET_{0} * APART_{0} > TAPS_{0}:
    is_tap = is_tap & (filter_{1} < TAPS_{0})
if COMMON_{0} > 1:
    is_tap = is_tap & ((phase_{1} + PADDING_{0}) % COMMON_{0} == 0)
""",
    "BOUND": """\
if EDGE_{0}:
    is_input = is_input & ({1} >= 0) & ({1} < {2})
""",
}
"""Replacements of these names in the kernels, once per axis. Taps of a phase of a transposed convolution are `APART`
in the filter, and meet inputs that are `RISE` apart; a phase may have fewer taps than another, and none if stride and
dilation have a common divisor. Without padding every tap meets an input."""

_START = """
    phase_w = tl.program_id(0) % PHASES_W
    phase_h = tl.program_id(0) // PHASES_W % PHASES_H
    phase_d = tl.program_id(0) // (PHASES_W * PHASES_H) % PHASES_D
    if GROUPS > 1:
        group = tl.program_id(2)
    else:
        group = 0
    steps_w = tl.cdiv(out_width, PHASES_W)
    steps_h = tl.cdiv(out_height, PHASES_H)
    steps_d = tl.cdiv(out_depth, PHASES_D)
    if WIDE:
        first = (tl.program_id(0) // (PHASES_W * PHASES_H * PHASES_D)).to(tl.int64) * BLOCK_M
    else:
        first = tl.program_id(0) // (PHASES_W * PHASES_H * PHASES_D) * BLOCK_M
    place = first + tl.arange(0, BLOCK_M)
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
    SETTLE
    column = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_column = column < filters
    total = tl.zeros((BLOCK_M, BLOCK_N), tl.float32)
"""
"""Beginning of both kernels with a product: the places and filters of a program.

Programs of all phases of the same places are neighbours, since phases share the memory sectors that they write."""

_END = """
        total = tl.dot(values, weights, total, PRECISION)
    spot = (out_d * out_height + out_h) * out_width + out_w
    target = ((image * GROUPS + group) * filters * (out_depth * out_height * out_width) + spot)[:, None]
    target = target + (column * (out_depth * out_height * out_width))[None, :]
    is_target = is_place[:, None] & is_column[None, :]
    tl.store(y_ptr + target, total, is_target)
"""

PRODUCT = f"""
@triton.jit
def product(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, filters, out_depth, out_height, out_width,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    {_START.strip()}
    if FAR:
        plane = (image.to(tl.int64) * GROUPS + group) * channels * (depth * height * width)
    else:
        plane = (image * GROUPS + group) * channels * (depth * height * width)
    places = plane + ((start_d * height + start_h) * width + start_w)
    for start in ALL_TAPS(0, channels * (MET_D * MET_H * MET_W), BLOCK_K):
        tap = start + tl.arange(0, BLOCK_K)
        tap_w = tap % MET_W
        tap_h = tap // MET_W % MET_H
        tap_d = tap // (MET_W * MET_H) % MET_D
        FILTER
        channel = tap // (MET_W * MET_H * MET_D)
        is_tap = channel < channels
        CUT
        is_input = is_tap[:, None] & is_place[None, :]
        w = (tap_w * REACH_W)[:, None] + start_w[None, :]
        h = (tap_h * REACH_H)[:, None] + start_h[None, :]
        d = (tap_d * REACH_D)[:, None] + start_d[None, :]
        BOUND
        offset = ((channel * depth + tap_d * REACH_D) * height + tap_h * REACH_H) * width + tap_w * REACH_W
        values = tl.trans(tl.load(x_ptr + (places[None, :] + offset[:, None]), is_input, other=0.0))
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

ROWS = f"""
@triton.jit
def product(x_ptr, weight_ptr, y_ptr, images, channels, depth, height, width, filters, out_depth, out_height, out_width,
            BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    {_START.strip()}
    MEET
    even = tl.cdiv(channels, EVEN) * EVEN
    full_w = width + BEFORE_W + AFTER_W
    full_h = height + BEFORE_H + AFTER_H
    full_d = depth + BEFORE_D + AFTER_D
    plane = (image.to(tl.int64) * GROUPS + group) * (full_d * full_h * full_w)
    places = tl.where(is_place, plane + ((low_d * full_h + low_h) * full_w + low_w), 0) * even
    if IN_ROWS:
        rows = met_d * met_h
        length = met_w * even
    else:
        rows = met_d * met_h * met_w
        length = even
    parts = tl.cdiv(length, BLOCK_K)
    for step in range(0, rows * parts):
        row = step // parts
        inner = step % parts * BLOCK_K + tl.arange(0, BLOCK_K)
        is_tap = inner < length
        if IN_ROWS:
            tap_w = inner // even
            tap_h = row % met_h
            tap_d = row // met_h % met_d
            offset = (tap_d * RISE_D * full_h + tap_h * RISE_H) * full_w * even
        else:
            tap_w = row % met_w
            tap_h = row // met_w % met_h
            tap_d = row // (met_w * met_h) % met_d
            offset = ((tap_d * RISE_D * full_h + tap_h * RISE_H) * full_w + tap_w * RISE_W) * even
        values = tl.load(x_ptr + ((places + offset)[:, None] + inner[None, :]), is_tap[None, :], other=0.0)
        if TRANSPOSED:
            filter_w = first_w + (met_w - 1 - tap_w) * APART_W
            filter_h = first_h + (met_h - 1 - tap_h) * APART_H
            filter_d = first_d + (met_d - 1 - tap_d) * APART_D
        else:
            filter_w = tap_w
            filter_h = tap_h
            filter_d = tap_d
        spread = ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w) * (GROUPS * filters) * even + inner % even
        filters_ptr = weight_ptr + (spread[:, None] + ((group * filters + column) * even)[None, :])
        weights = tl.load(filters_ptr, is_tap[:, None] & is_column[None, :], other=0.0)
        {_END.strip()}
"""
"""Product whose input and filters have their channels last, and whose input has zeros around it. What a place depends
on lies in rows, one per tap of the other axes: all taps along the width with all their channels, side by side. So a
place needs one address per row and no bounds, loads are wide, and few channels fill a block. Taps along the width that
are apart have rows of their own."""

PACK = """
@triton.jit
def pack(x_ptr, y_ptr, places, channels, x_part, x_channel, y_part, y_place, depth, height, width,
         BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    blocks = tl.cdiv(places, BLOCK_M)
    part = (tl.program_id(0) // blocks).to(tl.int64)
    place = tl.program_id(0) % blocks * BLOCK_M + tl.arange(0, BLOCK_M)
    channel = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    is_place = place < places
    if AROUND:
        full_w = width + BEFORE_W + AFTER_W
        full_h = height + BEFORE_H + AFTER_H
        w = place % full_w - BEFORE_W
        h = place // full_w % full_h - BEFORE_H
        d = place // (full_w * full_h) - BEFORE_D
        is_input = is_place
        BOUND
        spot = (d * height + h) * width + w
    else:
        is_input = is_place
        spot = place
    source = part * x_part + (channel.to(tl.int64) * x_channel)[:, None] + spot[None, :]
    value = tl.trans(tl.load(x_ptr + source, (channel < channels)[:, None] & is_input[None, :], other=0.0))
    if ROUNDED:
        near = ((value.to(tl.int32, bitcast=True) + 4096) & -8192).to(tl.float32, bitcast=True)
        value = tl.where(value == value, near, value)
    target = part * y_part + (place.to(tl.int64) * y_place)[:, None] + channel[None, :]
    tl.store(y_ptr + target, value, is_place[:, None] & (channel < tl.cdiv(channels, EVEN) * EVEN)[None, :])
"""
"""Copy of a tensor with its channels last, part by part, with zeros around its places and after its channels. Float32
factors of TF32 products are rounded to the nearest on the way: matrix units cut them instead, and errors of one sign
add up."""

SUM = """
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
    step_w = out_w // PHASES_W
    step_h = out_h // PHASES_H
    step_d = out_d // PHASES_D
    phase_w = out_w % PHASES_W
    phase_h = out_h % PHASES_H
    phase_d = out_d % PHASES_D
    SETTLE
    total = tl.zeros((BLOCK,), tl.float32)
    for channel in range(channels):
        for tap_d in range(MET_D):
            for tap_h in range(MET_H):
                for tap_w in range(MET_W):
                    FILTER
                    is_tap = is_target
                    CUT
                    is_input = is_tap
                    w = start_w + tap_w * REACH_W
                    h = start_h + tap_h * REACH_H
                    d = start_d + tap_d * REACH_D
                    BOUND
                    spot = (((plane.to(tl.int64) * channels + channel) * depth + d) * height + h) * width + w
                    value = tl.load(x_ptr + spot, is_input, other=0.0)
                    row = tl.zeros((BLOCK,), tl.int32) + (group * channels + channel) * (TAPS_D * TAPS_H * TAPS_W)
                    row = row + ((filter_d * TAPS_H + filter_h) * TAPS_W + filter_w)
                    weight = tl.load(weight_ptr + row, is_tap, other=0.0)
                    total = total + value.to(tl.float32) * weight.to(tl.float32)
    tl.store(y_ptr + target, total, is_target)
"""


def complete(text: str) -> str:
    """Insert the common parts into a kernel's text."""
    axes = [(letter, letter.lower(), extent) for letter, extent in zip(LETTERS[::-1], EXTENTS[::-1], strict=True)]

    def part(found: re.Match[str]) -> str:
        return indent("".join(_PARTS[found[2]].format(*axis) for axis in axes), found[1])

    return re.sub(rf"^( *)({'|'.join(_PARTS)})\n", part, text, flags=re.MULTILINE)
