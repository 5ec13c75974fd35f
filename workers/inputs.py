"""Input values: several draws for every input of an operator, each from a secret seed.

A draw is a way to choose values, and different draws find different faults: `heavy` and `shifted` find arithmetic
that is only stable for normal values, `structured` finds fast paths that look at values, `planted` and `lone` find
kernels that swallow NaN and infinities. Nothing here may be seeded by anything that a candidate's author knows.
"""

import hashlib
from collections.abc import Callable

import torch

from workers.protocol import Distribution, Input, Operator, Shape

HEAVY_DECADES = 3.0
"""Rows of `heavy` are scaled by up to 10^3 either way: beyond it float32 sums of honest kernels cancel too much."""
SHIFTED_MEAN = 30.0
"""Mean of `shifted`, with spread 1: a mean of 10 hides TF32 sums behind bfloat16's own rounding, 30 does not."""
EXTREME = 2.0**7
"""Largest value of `structured`: its exponential overflows, while scores of two such vectors stay within the sentinels
(a million) that kernels mask with."""
FAINT = 2.0**-20
"""Scale of rows of `structured` that float16 has no normal numbers for, so that arithmetic in it shows."""
PLANTED = {"planted": 3, "lone": 1}
"""Draws with some of NaN, Inf and -Inf in one input, and how many; all NaN if gradients are judged. Where a result
depends on a whole input, as a loss does, one special value hides whether another is swallowed."""
HEADROOM = 16.0
"""Drawn values keep this factor from the largest value of their dtype, and of float32, which they are drawn in."""


def draw(
    operator: Operator, shape: Shape, name: str, seed: bytes | int, device: torch.device | None = None
) -> tuple[torch.Tensor, ...]:
    """Draw every input of an operator at one shape.

    Args:
        operator: Names the inputs, their shapes and dtypes, and what pins their distribution.
        shape: Sizes of the dimensions.
        name: One of `DRAWS`.
        seed: A secret; equal seeds give equal values on equal devices.
        device: Where values are drawn, on its current stream; the CPU if None.

    Returns:
        Contiguous tensors on the device, in the operator's order.

    Raises:
        ValueError: If there is no draw of that name.
    """
    if name not in DRAWS:
        raise ValueError(f"'{name}' is no draw; known: {', '.join(DRAWS)}")
    tensors = []
    for item in operator.given:
        generator = _generator(seed, device, shape.key, name, item.name)
        tensors.append(_draw_input(item, operator.input_shape(item, shape.dims), shape.dims, name, generator))
    if name in PLANTED:
        _plant(operator, tensors, PLANTED[name], _generator(seed, device, shape.key, name, ""))
    return tuple(tensors)


def _generator(seed: bytes | int, device: torch.device | None, *names: str) -> torch.Generator:
    secret = seed if isinstance(seed, bytes) else str(seed).encode()
    digest = hashlib.sha256(secret + "\0".join(names).encode()).digest()
    return torch.Generator(device or "cpu").manual_seed(int.from_bytes(digest[:8]) >> 1)


def _draw_input(
    item: Input, size: tuple[int, ...], dims: dict[str, int], name: str, generator: torch.Generator
) -> torch.Tensor:
    dtype: torch.dtype = getattr(torch, item.dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, size, generator=generator, device=generator.device).bool()
    if not dtype.is_floating_point:
        return _integers(item, size, dims, name, generator).to(dtype)
    if item.distribution is Distribution.UNIFORM:
        values = _uniform(item, size, name, generator)
    elif item.distribution is Distribution.NORMAL:
        values = _normal(size, generator, dtype)
    else:
        values = DRAWS[name](size, generator, dtype)
    low, high = _bounds(item)
    limit = min(torch.finfo(dtype).max, torch.finfo(torch.float32).max) / HEADROOM
    return values.clamp(max(low, -limit), min(high, limit)).to(dtype)


def _bounds(item: Input) -> tuple[float, float]:
    high = item.high if isinstance(item.high, float) else float("inf")
    return (float("-inf") if item.low is None else item.low), high


def _integers(
    item: Input, size: tuple[int, ...], dims: dict[str, int], name: str, generator: torch.Generator
) -> torch.Tensor:
    """Uniform in [low, high); `structured` sorts them between both ends."""
    low = int(item.low or 0)
    high = dims[item.high] if isinstance(item.high, str) else int(item.high or 0)
    values = torch.randint(low, max(high, low + 1), size, generator=generator, device=generator.device)
    if name == "structured" and values.numel() > 1:
        values = values.flatten().sort().values
        values[0], values[-1] = low, max(high - 1, low)
        values = values.reshape(size)
    return values


def _uniform(item: Input, size: tuple[int, ...], name: str, generator: torch.Generator) -> torch.Tensor:
    """Uniform in [low, high]; `heavy` crowds the lower end, `shifted` the upper, `structured` repeats both ends."""
    share = torch.rand(size, generator=generator, dtype=torch.float64, device=generator.device)
    if name == "heavy":
        share = share**4
    elif name == "shifted":
        share = 1 - share / 4
    elif name == "structured":
        share = torch.where(share < 0.25, 0.0, torch.where(share > 0.75, 1.0, share))
    low, high = _bounds(item)
    low = 0.0 if low == float("-inf") else low
    high = low + 1 if high == float("inf") else high
    return low + share * (high - low)


def _normal(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(size, generator=generator, dtype=torch.float32, device=generator.device)


def _heavy(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """Normal values with a scale of their own for every row; single rows scale element by element, half as far."""
    per_row = len(size) > 1
    exponents = torch.rand((*size[:-1], 1) if per_row else size, generator=generator, device=generator.device) * 2 - 1
    return _normal(size, generator, dtype) * 10 ** (exponents * (HEAVY_DECADES if per_row else HEAVY_DECADES / 2))


def _shifted(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return _normal(size, generator, dtype) + SHIFTED_MEAN


def _structured(size: tuple[int, ...], generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    """A pattern for every row; a row that is alone takes one that leaves its elements alive."""
    rows = _normal(size, generator, dtype).reshape(-1, size[-1] if size else 1)
    patterns = _PATTERNS if len(rows) > 1 else _LIVE_PATTERNS
    start = int(torch.randint(0, len(patterns), (), generator=generator, device=generator.device))
    order = torch.randperm(len(rows), generator=generator, device=generator.device)
    for index in range(len(patterns)):
        chosen = order[index :: len(patterns)]
        rows[chosen] = patterns[(start + index) % len(patterns)](rows[chosen], generator, dtype)
    return rows.reshape(size)


Pattern = Callable[[torch.Tensor, torch.Generator, torch.dtype], torch.Tensor]
"""Normal rows in, patterned rows out; both (rows, columns)."""


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


def _extreme(rows: torch.Tensor, generator: torch.Generator, dtype: torch.dtype) -> torch.Tensor:
    return rows.sign() * EXTREME


_LIVE_PATTERNS: tuple[Pattern, ...] = (_equal, _ascending, _descending, _alternating)
_PATTERNS: tuple[Pattern, ...] = (*_LIVE_PATTERNS, _one_hot, _denormal, _faint, _extreme)


def takes_specials(item: Input) -> bool:
    """Whether NaN and infinities may be planted in an input: in floats that no distribution and no bound pins."""
    pinned = item.distribution is not None or item.low is not None or item.high is not None
    return not pinned and getattr(torch, item.dtype).is_floating_point


def _plant(operator: Operator, tensors: list[torch.Tensor], count: int, generator: torch.Generator) -> None:
    """Put some of NaN, Inf and -Inf, as many as fit, into one float input that no distribution pins.

    Where gradients are judged all of them are NaN: at infinity a gradient times a slope of zero is NaN in one right
    formula and zero in another.
    """
    candidates = [tensor for item, tensor in zip(operator.given, tensors, strict=True) if takes_specials(item)]
    if candidates:
        device = generator.device
        chosen = candidates[int(torch.randint(0, len(candidates), (), generator=generator, device=device))].view(-1)
        positions = torch.randperm(chosen.numel(), generator=generator, device=device)[:count]
        kinds = ("nan", "nan", "nan") if operator.backward else ("nan", "inf", "-inf")
        specials = torch.tensor([float(kind) for kind in kinds], device=device)
        specials = specials[torch.randperm(3, generator=generator, device=device)]
        chosen[positions] = specials[: len(positions)].to(chosen.dtype)


Draw = Callable[[tuple[int, ...], torch.Generator, torch.dtype], torch.Tensor]
"""A size in, values in float32 out, for an input of the given dtype."""

DRAWS: dict[str, Draw] = {
    "normal": _normal,
    "heavy": _heavy,
    "shifted": _shifted,
    "structured": _structured,
    "planted": _normal,
    "lone": _normal,
}
"""The draws by name, in the order in which they are applied."""
