"""Values of timed content: like the draw `normal` of `workers.inputs` with rare outliers, but counter-based.

The value of an element follows from its input's seed and its index alone. So the runner can write it into any slot, and
the oracle can make it again elsewhere.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import prod

import torch

from workers.inputs import HEADROOM
from workers.protocol import DTYPE_BYTES, Distribution, Input, Operator, Shape
from workers.protocol.distribution import ORDERED
from workers.protocol.extent import size_of

MAX_INTEGERS = 2**32 - 1
"""Maximum number of different integers in an input: a random word chooses one."""


class ContentKind(StrEnum):
    """Distribution of values."""

    NORMAL = "normal"
    """Standard normal with rare outliers, clamped to [low, high]."""
    UNIFORM = "uniform"
    """Uniform over [low, high]."""
    INTEGERS = "integers"
    """Uniform over low, low + 1, ..., high - 1; booleans are 0 and 1."""
    ORDERED = "ordered"
    """Integers of an ordered distribution, from low to below high; of segments up to high, inclusive."""


@dataclass(frozen=True)
class ContentSpec:
    """The content of one input.

    Attributes:
        dtype: Torch's name.
        elements: Number of elements.
        kind: Distribution of values.
        low: Lower end.
        high: Upper end; one beyond the last for integers.
        order: Distribution of ordered content.
        columns: Elements of a row, along which content is ordered.
    """

    dtype: str
    elements: int
    kind: ContentKind
    low: float
    high: float
    order: Distribution | None = None
    columns: int = 1

    @property
    def bytes(self) -> int:
        """Size of the input."""
        return self.elements * DTYPE_BYTES[self.dtype]


@dataclass(frozen=True)
class ContentJob:
    """One input to fill.

    Attributes:
        pointer: Address on the card, a multiple of 16.
        spec: The content.
        seed64: A result of `stream_seed`. Equal seeds and equal specs give equal values everywhere.
    """

    pointer: int
    spec: ContentSpec
    seed64: int


def timed_content(operator: Operator, shape: Shape) -> tuple[ContentSpec, ...]:
    """Return the content of each input of an operator, in order."""
    return tuple(_spec(item, operator.input_shape(item, shape.dims), shape) for item in operator.given)


def stream_seed(seed: str, input_index: int, stream: int) -> int:
    """Return the 64 bits that one input's values follow from.

    They depend on the hexadecimal secret, the input's position, and one of many streams under the secret.
    """
    return _hashed(bytes.fromhex(seed), f"content {input_index} {stream}")


def zone_seed(seed: str) -> int:
    """Return the 64 bits that red zones follow from; `seed` is a content's or a round's secret, hexadecimal."""
    return _hashed(bytes.fromhex(seed), "zones")


def checksum_key(seed: str) -> int:
    """Return the odd number that checksums follow from; `seed` is a round's secret, hexadecimal."""
    return _hashed(bytes.fromhex(seed), "seals") >> 1 | 1


def assign_content(
    contents: Sequence[ContentSpec], seed: str, stream: int, pointers: Sequence[int]
) -> list[ContentJob]:
    """Return jobs that fill the inputs at addresses with a stream of timed content under a hexadecimal secret."""
    return [
        ContentJob(pointer, spec, stream_seed(seed, index, stream))
        for index, (pointer, spec) in enumerate(zip(pointers, contents, strict=True))
    ]


def _spec(item: Input, size: tuple[int, ...], shape: Shape) -> ContentSpec:
    elements = prod(size)
    if item.dtype == "bool":
        return ContentSpec(item.dtype, elements, ContentKind.INTEGERS, 0, 2)
    dtype: torch.dtype = getattr(torch, item.dtype)
    if not dtype.is_floating_point:
        low = int(item.low or 0)
        high = size_of(item.high, shape.dims) if isinstance(item.high, str) else int(item.high or 0)
        if item.distribution in ORDERED:
            return ContentSpec(item.dtype, elements, ContentKind.ORDERED, low, high, item.distribution, size[-1])
        return ContentSpec(item.dtype, elements, ContentKind.INTEGERS, low, min(max(high, low + 1), low + MAX_INTEGERS))
    limit = torch.finfo(dtype).max / HEADROOM
    low_given = float("-inf") if item.low is None else item.low
    high_given = item.high if isinstance(item.high, float) else float("inf")
    if item.distribution is Distribution.UNIFORM:
        low_given = 0.0 if item.low is None else low_given
        high_given = low_given + 1 if high_given == float("inf") else high_given
        return ContentSpec(item.dtype, elements, ContentKind.UNIFORM, max(low_given, -limit), min(high_given, limit))
    return ContentSpec(item.dtype, elements, ContentKind.NORMAL, max(low_given, -limit), min(high_given, limit))


def _hashed(secret: bytes, purpose: str) -> int:
    return int.from_bytes(hashlib.sha256(secret + b"\0" + purpose.encode()).digest()[:8])
