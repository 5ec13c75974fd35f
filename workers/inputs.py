"""Input values: several draws for every input of an operator, each from a secret seed.

A draw is a way to choose values, and different draws find different faults. `heavy` and `shifted` find arithmetic
that is only stable for normal values. `structured` finds fast paths that depend on values. `planted` and `lone` find
kernels that swallow NaN and infinities. A candidate's author must not know any of the seeds.
"""

import hashlib
from collections.abc import Callable, Sequence
from math import ceil, prod

import torch

from workers.marked_inputs import marked
from workers.ordered_inputs import draw_ordered
from workers.protocol import DTYPE_BYTES, Distribution, Input, Operator, Shape
from workers.protocol.distribution import ORDERED
from workers.protocol.extent import size_of

HEAVY_DECADES = 3.0
"""Rows of `heavy` are scaled by up to 10^3 either way: beyond it float32 sums of honest kernels cancel too much."""
SHIFTED_MEAN = 30.0
"""Mean of `shifted`, with spread 1: a mean of 10 hides TF32 sums behind bfloat16's own rounding, 30 does not."""
EXTREME = 2.0**7
"""Largest value of `structured`: its exponential overflows, while scores of two such vectors stay within the sentinels
(a million) that kernels mask with."""
FAINT = 2.0**-20
"""Scale of rows of `structured` below the normal numbers of float16, which shows arithmetic in that dtype."""
MINUTE = 2.0**-40
"""Scale of rows of `structured` below epsilons of 1e-12, such as a lower bound of a scale."""
PLANTED = {"planted": 3, "lone": 1}
"""Draws with NaN, Inf and -Inf in one input, and the number of these; all are NaN if gradients are judged. Where a
result depends on a whole input, as a loss does, one special value hides whether another is swallowed."""
ENDS = {"heavy": 0, "shifted": 1}
"""Draws in which uniform inputs, flags among them, are near the ends of their range in long stretches; 1 if the first
stretch is at the upper end. If all values are spread evenly, a state forgets at one pace and every expert gets its
share. A kernel that looks back a hundred positions, or has room for half as many tokens again, passed all other draws.
Floats on both sides of zero, such as weights, are on one side throughout: a sum over stretches of both would cancel. A
layer of 4096 by 1 gave 1.8 from partial sums of 960, and a right kernel was refused on an H200.
"""
NEAR = 1e-3
"""Distance from an end, as a share of the range: the logarithms of 2048 gates between -1 and 0 then add up to -1."""
NEAR_OF_BOTH = 0.5
"""Distance from an end of floats on both sides of zero, as a share of that between this end and zero. With nearly equal
filters the channels of a convolution were nearly equal, too, and a norm over them told nothing but how TF32 rounds.
"""
TURNS = 3
"""Number of different stretch lengths. Inputs with different ones show all combinations of their ends."""
SHIFTED_SPREADS = 3.0
"""Spreads between the mean of `shifted` and a bound."""
HEADROOM = 16.0
"""Factor between drawn values and the largest value of their dtype, and of float32, in which they are drawn."""


def draw(
    operator: Operator, shape: Shape, name: str, seed: bytes | int, device: torch.device | None = None
) -> tuple[torch.Tensor, ...]:
    """Draw every input of an operator at one shape.

    Args:
        operator: The operator, with its inputs' shapes, dtypes and distributions.
        shape: Sizes of the dimensions.
        name: One of `DRAWS`.
        seed: A secret; equal seeds give equal values on equal devices.
        device: Device on whose current stream values are drawn; the CPU if None.

    Returns:
        Contiguous tensors on the device, in the operator's order; an absent input is one without elements.

    Raises:
        ValueError: If there is no draw of that name.
    """
    if name not in DRAWS:
        raise ValueError(f"'{name}' is no draw; known: {', '.join(DRAWS)}")
    tensors = []
    turns = {item.name: number % TURNS for number, item in enumerate(filter(_is_even, operator.given))}
    for item in operator.given:
        generator = _generator(seed, device, shape.key, name, item.name)
        size, turn = operator.input_shape(item, shape.dims), turns.get(item.name, 0)
        tensors.append(_draw_input(item, size, shape.dims, name, generator, turn))
    if name == "structured":
        _blank(operator, tensors, _generator(seed, device, shape.key, name, ""))
    if name in PLANTED:
        _plant(operator, tensors, PLANTED[name], _generator(seed, device, shape.key, name, ""))
    return tuple(tensors)


def draw_tiles(operator: Operator, shape: Shape, size_bytes: int, seed: bytes | int) -> tuple[torch.Tensor, ...]:
    """Draw `size_bytes` bytes of every input from `normal`, of ordered inputs all, which no tile stands for.

    Returns tensors in the operator's order.
    """
    tiles = []
    for item in operator.given:
        whole = item.distribution in ORDERED
        size = operator.input_shape(item, shape.dims) if whole else (size_bytes // DTYPE_BYTES[item.dtype],)
        generator = _generator(seed, None, shape.key, "tile", item.name)
        tiles.append(_draw_input(item, size, shape.dims, "normal", generator))
    return tuple(tiles)


def _generator(seed: bytes | int, device: torch.device | None, *names: str) -> torch.Generator:
    secret = seed if isinstance(seed, bytes) else str(seed).encode()
    digest = hashlib.sha256(secret + "\0".join(names).encode()).digest()
    return torch.Generator(device or "cpu").manual_seed(int.from_bytes(digest[:8]) >> 1)


def _is_even(item: Input) -> bool:
    return item.distribution is Distribution.UNIFORM or not getattr(torch, item.dtype).is_floating_point


def _draw_input(
    item: Input, size: tuple[int, ...], dims: dict[str, int], name: str, generator: torch.Generator, turn: int = 0
) -> torch.Tensor:
    if 0 in size:
        return torch.empty(size, dtype=getattr(torch, item.dtype), device=generator.device)
    if item.distribution in ORDERED:
        ordered = draw_ordered(item.distribution, size, *_integer_bounds(item, dims), name, generator)
        if item.marker is not None:
            ordered = marked(ordered, item.marker, name, _upper(item, size, name, turn, generator.device), generator)
        return ordered.to(getattr(torch, item.dtype))
    if _is_even(item):
        return _draw_even(item, size, dims, name, _upper(item, size, name, turn, generator.device), generator)
    dtype: torch.dtype = getattr(torch, item.dtype)
    drawn = _normal if item.distribution is Distribution.NORMAL else DRAWS[name]
    low, high = _bounds(item)
    values = drawn(size, generator, dtype)
    if drawn is _shifted:
        values = _nearer(values, *_ends(low, high, dtype))
    if drawn in (_heavy, _shifted):
        values = _mirrored(values, *_ends(low, high, dtype))
    return _within(values, low, high, dtype)


def _draw_even(
    item: Input,
    size: tuple[int, ...],
    dims: dict[str, int],
    name: str,
    upper: torch.Tensor | None,
    generator: torch.Generator,
) -> torch.Tensor:
    """Draw values evenly from an input's range, or near its ends.

    `structured` repeats both ends of float ranges. It sorts integers, and includes both ends.

    Args:
        item: The input.
        size: Its shape.
        dims: Sizes of the dimensions, which may bound integers.
        name: Name of the draw.
        upper: True for values near the upper end, False for values near the lower one; None for the whole range.
        generator: Random generator.
    """
    dtype: torch.dtype = getattr(torch, item.dtype)
    if dtype.is_floating_point:
        low, high = _bounds(item)
        low = 0.0 if low == float("-inf") else low
        high = low + 1 if high == float("inf") else high
        near = tuple(NEAR_OF_BOTH * abs(end) / (high - low) if _has_both_signs(item) else NEAR for end in (low, high))
        return _within(low + _shares(size, name, upper, near, generator) * (high - low), low, high, dtype)
    low, high = (0, 2) if dtype == torch.bool else _integer_bounds(item, dims)
    values = (low + _steps(size, high - low, name, upper, generator)).to(dtype)
    return values if item.marker is None else marked(values, item.marker, name, upper, generator)


def _within(values: torch.Tensor, low: float, high: float, dtype: torch.dtype) -> torch.Tensor:
    return values.clamp(*_ends(low, high, dtype)).to(dtype)


def _ends(low: float, high: float, dtype: torch.dtype) -> tuple[float, float]:
    """Return the smallest and the largest value that may be drawn."""
    limit = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max) / HEADROOM
    return max(low, -limit), min(high, limit)


def _mirrored(values: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Reflect values at the bounds, as often as it takes; those between them stay as they are.

    If they were cut off there, most values of `heavy` and all of `shifted` would be equal. Equal values are rounded
    alike, and right kernels have a bias: attention with scaled queries in float16 was refused on an H200. In `normal`
    they are cut off, so that bounds occur: if they were mirrored there too, queries of that attention with one bit less
    would pass on all draws, while now each of ten such draws shows a bias.
    """
    least, most = (end.item() for end in values.aminmax())
    span = high - low
    if (low <= least and most <= high) or span <= 0:
        return values
    beyond = torch.maximum(low - values, values - high).clamp_(min=0).remainder_(2 * span)
    beyond = torch.minimum(beyond, 2 * span - beyond)
    return torch.where(values < low, low + beyond, torch.where(values > high, high - beyond, values))


def _nearer(values: torch.Tensor, low: float, high: float) -> torch.Tensor:
    """Scale values of `shifted` so that nearly all lie before the bound that is farther from zero.

    Their mean stays `SHIFTED_MEAN` times their spread.
    """
    end = high if high >= -low else low
    return values * min(1.0, abs(end) / (SHIFTED_MEAN + SHIFTED_SPREADS)) * (1 if end > 0 else -1)


def _bounds(item: Input) -> tuple[float, float]:
    high = item.high if isinstance(item.high, float) else float("inf")
    return (float("-inf") if item.low is None else item.low), high


def _integer_bounds(item: Input, dims: dict[str, int]) -> tuple[int, int]:
    """Return the minimum, and the maximum plus one."""
    low = int(item.low or 0)
    high = size_of(item.high, dims) if isinstance(item.high, str) else int(item.high or 0)
    return low, high if item.distribution in ORDERED else max(high, low + 1)


def _upper(item: Input, size: tuple[int, ...], name: str, turn: int, device: torch.device) -> torch.Tensor | None:
    """Return True for values near the upper end: every second one of 2, 4 or 8 stretches, depending on `turn`."""
    if name not in ENDS:
        return None
    if _has_both_signs(item):
        return torch.full(size, ENDS[name] == 1, device=device)
    position = torch.arange(prod(size), device=device)
    stretch = position * 2 ** (turn + 1) // max(len(position), 1)
    upper: torch.Tensor = (stretch + ENDS[name]) % 2 == 1
    return upper.reshape(size)


def _has_both_signs(item: Input) -> bool:
    return getattr(torch, item.dtype).is_floating_point and (item.low or 0.0) < 0.0 < _bounds(item)[1]


def _steps(
    size: tuple[int, ...], count: int, name: str, upper: torch.Tensor | None, generator: torch.Generator
) -> torch.Tensor:
    """Draw integers from 0 to count - 1."""
    reach = count if upper is None else ceil(count * NEAR)
    values = torch.randint(0, reach, size, generator=generator, device=generator.device)
    if upper is not None:
        return torch.where(upper, count - 1 - values, values)
    if name == "structured" and values.numel() > 1:
        values = values.flatten().sort().values
        values[0], values[-1] = 0, count - 1
        values = values.reshape(size)
    return values


def _shares(
    size: tuple[int, ...], name: str, upper: torch.Tensor | None, near: Sequence[float], generator: torch.Generator
) -> torch.Tensor:
    """Draw numbers from 0 to 1, float64; with `upper` those that are as `near` to 0, or to 1."""
    share = torch.rand(size, generator=generator, dtype=torch.float64, device=generator.device)
    if upper is not None:
        return torch.where(upper, 1 - near[1] * share, near[0] * share)
    if name == "structured":
        return torch.where(share < 0.25, 0.0, torch.where(share > 0.75, 1.0, share))
    return share


def _normal(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(size, generator=generator, dtype=torch.float32, device=generator.device)


def _heavy(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Draw normal values with one scale per row. A single row has one scale per element, of half as many decades."""
    per_row = len(size) > 1
    exponents = torch.rand((*size[:-1], 1) if per_row else size, generator=generator, device=generator.device) * 2 - 1
    return _normal(size, generator, dtype) * 10 ** (exponents * (HEAVY_DECADES if per_row else HEAVY_DECADES / 2))


def _shifted(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return _normal(size, generator, dtype) + SHIFTED_MEAN


def _structured(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Draw a pattern for each row. A single row gets one of `_LIVE_PATTERNS`, which keep its elements significant."""
    rows = _normal(size, generator, dtype).reshape(-1, size[-1] if size else 1)
    patterns = _PATTERNS if len(rows) > 1 else _LIVE_PATTERNS
    start = int(torch.randint(0, len(patterns), (), generator=generator, device=generator.device))
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    for index in range(len(patterns)):
        chosen = order[index :: len(patterns)]
        rows[chosen] = patterns[(start + index) % len(patterns)](rows[chosen], generator, dtype)
    return rows.reshape(size)


Pattern = Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor]
"""A function from normal rows to patterned rows, both (rows, columns)."""


def _equal(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows[:, :1].expand_as(rows)


def _one_hot(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    column = torch.randint(0, rows.shape[1], (len(rows), 1), generator=generator, device=rows.device)
    return torch.zeros_like(rows).scatter(1, column, 1.0)


def _ascending(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows.sort(dim=1).values


def _descending(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows.sort(dim=1, descending=True).values


def _alternating(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    odd = torch.arange(rows.shape[1], device=rows.device) % 2 == 1
    return torch.where(odd, -rows.abs(), rows.abs())


def _denormal(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows.clamp(-1, 1) * torch.finfo(dtype).tiny


def _faint(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows * max(FAINT, 16 * torch.finfo(dtype).tiny)


def _minute(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows * max(MINUTE, 16 * torch.finfo(dtype).tiny)


def _extreme(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows.sign() * EXTREME


_LIVE_PATTERNS: tuple[Pattern, ...] = (_equal, _ascending, _descending, _alternating)
_PATTERNS: tuple[Pattern, ...] = (*_LIVE_PATTERNS, _one_hot, _denormal, _faint, _minute, _extreme)


def _blank(operator: Operator, tensors: list[torch.Tensor], generator: torch.Generator) -> None:
    """Zero one row, at the same place, in every float input that has several rows and may be zero.

    A kernel that divides by a row's sum, over several inputs, then divides by zero.
    """
    place = torch.rand((), generator=generator, dtype=torch.float64, device=generator.device).item()
    for item, tensor in zip(operator.given, tensors, strict=True):
        low, high = _bounds(item)
        rows = tensor.numel() // max(1, tensor.shape[-1] if tensor.ndim else 1)
        if rows > 1 and item.distribution is None and not _is_even(item) and low <= 0 <= high:
            tensor.view(rows, -1)[int(place * rows)].zero_()


def takes_specials(item: Input) -> bool:
    """Return True if NaN and infinities may be planted in an input: a float one without distribution and bounds."""
    pinned = item.distribution is not None or item.low is not None or item.high is not None
    return not pinned and getattr(torch, item.dtype).is_floating_point


def _plant(operator: Operator, tensors: list[torch.Tensor], count: int, generator: torch.Generator) -> None:
    """Put up to `count` of NaN, Inf and -Inf into one float input without a given distribution.

    If gradients are judged, all are NaN. At infinity, a gradient times a slope of zero is NaN in one correct formula
    and zero in another.
    """
    pairs = zip(operator.given, tensors, strict=True)
    candidates = [tensor for item, tensor in pairs if takes_specials(item) and tensor.numel()]
    if candidates:
        device = generator.device
        chosen = candidates[int(torch.randint(0, len(candidates), (), generator=generator, device=device))].view(-1)
        positions = _some_of(chosen.numel(), count, generator)
        kinds = ("nan", "nan", "nan") if operator.backward else ("nan", "inf", "-inf")
        specials = torch.tensor([float(kind) for kind in kinds], device=device)
        specials = specials[torch.randperm(3, generator=generator, device=device)]
        chosen[positions] = specials[: len(positions)].to(chosen.dtype)


def _some_of(numel: int, count: int, generator: torch.Generator) -> list[int]:
    """Return `count` different positions of a tensor, or all if there are fewer.

    By Floyd's method (Bentley and Floyd 1987): a permutation of a billion positions takes a card seconds.
    """
    found: list[int] = []
    for last in range(max(0, numel - count), numel):
        position = int(torch.randint(0, last + 1, (), generator=generator, device=generator.device))
        found.append(last if position in found else position)
    return found


Draw = Callable[[tuple[int, ...], torch.Generator, torch.dtype], torch.Tensor]
"""A function that draws float32 values of a size, for an input of the given dtype."""

DRAWS: dict[str, Draw] = {
    "normal": _normal,
    "heavy": _heavy,
    "shifted": _shifted,
    "structured": _structured,
    "planted": _normal,
    "lone": _normal,
}
"""The draws by name, in the order in which they are applied."""
