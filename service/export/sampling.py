"""Shapes for an export: where symbolic traces start and are compared, and where kernels are timed."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, log

from service.errors import InvalidInput
from service.operators.shapes import random_shapes
from workers.protocol import Operator, Shape, ShapeRole

COMPARED = 300
"""Number of shapes that symbolic plans are compared at; the catalogue's seeds need about 100 to meet all their ways."""
SPREAD = 20
"""Number of drawn shapes at which kernels are timed, besides the benchmark shapes and those that are named."""
POOL = 1000
"""Number of shapes that a tree is grown over: enough for the corners of four sizes, and grown in a second."""
SMALL = 40
"""Number of shapes that the interpreter can execute, so that it can judge most functions."""
ODD = 1 / 3
"""Share of sizes that 16 does not divide."""
DESIGNS = 20
"""Number of designs of the drawn shapes, of which the one with most shapes of a suitable size is taken."""
LARGEST_BYTES = 2**30
"""Maximum bytes of all inputs of a shape. A card's oracle needs a dozen times as many to judge a run, and seconds."""
ALIGNED = 16


@dataclass(frozen=True)
class SampledShapes:
    """Shapes for an export.

    Attributes:
        all: All shapes, without duplicates; the judged ones first.
        spread: Keys of those at which kernels are timed.
    """

    all: tuple[Shape, ...]
    spread: frozenset[str]

    @property
    def timed(self) -> "SampledShapes":
        """Shapes at which kernels are timed, without the others."""
        return SampledShapes(tuple(shape for shape in self.all if shape.key in self.spread), self.spread)

    def and_timed(self, more: Sequence[Mapping[str, int]]) -> "SampledShapes":
        """Return these shapes and further ones, at which kernels are timed as well."""
        new = {shape.key: shape for shape in (Shape(dims=dict(dims), role=ShapeRole.RANDOM) for dims in more)}
        known = {shape.key for shape in self.all}
        return SampledShapes(
            (*self.all, *(shape for key, shape in new.items() if key not in known)), self.spread | set(new)
        )


def pool(operator: Operator) -> list[dict[str, int]]:
    """Draw sizes as `sample` does, many more of them, which nothing is traced or timed at. They are always the same."""
    rng = random.Random(f"pool {operator.digest}")
    drawn = [_drawn(operator, rng, {}) for _ in range(POOL)] if operator.ranges else []
    return [dims for dims in drawn if not operator.is_empty(dims)]


def is_small_enough(operator: Operator, dims: Mapping[str, int]) -> bool:
    """Return True if a card's oracle can judge a run at some sizes."""
    return operator.input_bytes(dict(dims)) <= LARGEST_BYTES


def sample(
    operator: Operator, judged: Sequence[Shape], named: Sequence[Mapping[str, int]] = (), compared: int = COMPARED
) -> SampledShapes:
    """Draw shapes log-uniformly from the ranges, a third of the sizes not divisible by 16.

    Those at which kernels are timed cover each range evenly: plain draws left out the last octave of a range, where one
    kernel took five times as long as another. The shapes are the same for equal arguments, so that all elites of a
    package are timed at the same ones.

    Args:
        operator: The operator.
        judged: Shapes of its search.
        named: Sizes of further shapes to time at.
        compared: Number of shapes that are drawn.

    Raises:
        InvalidInput: If a named shape has other dimensions, or lies outside the ranges.
    """
    rng = random.Random(operator.digest)
    wanted = [Shape(dims=_checked(operator, dims)) for dims in named]
    wanted += [Shape(dims=shape.dims) for shape in judged if shape.role is ShapeRole.BENCHMARK]
    even = _even(operator, rng)
    dims = [*even, *(_drawn(operator, rng, {}) for _ in range(compared - SPREAD))]
    drawn = [Shape(dims=each, role=ShapeRole.RANDOM) for each in dims if is_small_enough(operator, each)]
    drawn = drawn if operator.ranges else []
    small = random_shapes(operator, rng.getrandbits(30), SMALL, set(), small=True) if operator.ranges else []
    spread = {shape.key for shape in (*wanted, *drawn[: len(even)])}
    every: dict[str, Shape] = {}
    for shape in (*judged, *wanted, *drawn, *small):
        if not operator.is_empty(shape.dims):  # PyTorch serves empty tensors, which launch nothing.
            every.setdefault(shape.key, shape)
    return SampledShapes(tuple(every.values()), frozenset(spread))


def _checked(operator: Operator, dims: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a named shape; dimensions without a range default to those of the first benchmark shape."""
    full = {name: operator.shapes[0].dims[name] for name in operator.dimensions if name not in operator.ranges}
    full |= dims
    if set(full) != set(operator.dimensions):
        raise InvalidInput(f"a shape of {operator.name} has the sizes {', '.join(operator.dimensions)}", "--shapes")
    for name, (low, high) in operator.ranges.items():
        if not low <= full[name] <= high:
            raise InvalidInput(f"{name}={full[name]} is not within {low} to {high}", "--shapes")
    return {name: full[name] for name in operator.dimensions}


def _even(operator: Operator, rng: random.Random) -> list[dict[str, int]]:
    """Draw shapes of which each has another part of every range, in a Latin hypercube; without those too large."""
    found: list[dict[str, int]] = []
    for _ in range(DESIGNS):
        parts = {name: rng.sample(range(SPREAD), SPREAD) for name in operator.ranges}
        places = [{name: (part[at] + rng.random()) / SPREAD for name, part in parts.items()} for at in range(SPREAD)]
        drawn = [_drawn(operator, rng, each) for each in places]
        found = max(found, [dims for dims in drawn if is_small_enough(operator, dims)], key=len)
    return found


def _drawn(operator: Operator, rng: random.Random, places: Mapping[str, float]) -> dict[str, int]:
    """Draw sizes.

    Args:
        operator: The operator.
        rng: Source of randomness.
        places: Places in ranges, as shares of their logarithm; the others are random.
    """
    dims = dict(rng.choice(operator.shapes).dims)
    for name, (low, high) in operator.ranges.items():
        first, last = log(max(1, low)), log(high + 1)
        size = int(exp(first + (last - first) * (places[name] if name in places else rng.random())))
        if rng.random() >= ODD and size >= ALIGNED:
            size -= size % ALIGNED
        dims[name] = max(low, min(high, size))
    return dims | {name: rng.randrange(2) for name in operator.presences}
