"""Undefined values: results that Triton does not specify, or that differ between machines.

In every other draw an undefined value is a card's result at run time, in the others it is random. The compiler may
compute such values itself, or assume that they do not occur and drop dependent code. So a kernel must not depend on one
of them.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from types import CodeType, FrameType

import numpy as np

from workers.interpreter.faults import FILENAME, Array
from workers.interpreter.formats import TritonType, format_of

_CARDS_NAN = {4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
# The only NaN that a card's arithmetic yields (PTX ISA, `add`), by the bytes of a float.
_QUIET_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_PAYLOAD = {4: 0x803FFFFF, 8: 0x8007FFFFFFFFFFFF}
# Bits in which a NaN may differ from a quiet one.

Place = tuple[CodeType, int, int]
"""An instruction of the candidate, and the number of its earlier executions by the current lanes."""


@dataclass
class _Seen:
    """Undefined elements in one place, over draws that ran alone.

    Attributes:
        undefined: Elements that were undefined in all of them.
        draws: Indices of these draws.
    """

    undefined: Array
    draws: set[int] = field(default_factory=set)


class UndefinedValues:
    """Source of undefined values, each the same throughout a draw of the inputs.

    Args:
        order: Source of randomness.
        draws: Number of draws of the inputs.
    """

    def __init__(self, order: np.random.Generator, draws: int) -> None:
        self._is_open = (np.arange(draws) + order.integers(2)) % 2 == 1
        self._bits = order.integers(0, 1 << 64, draws, dtype=np.uint64)
        self._seen: dict[tuple[Place, tuple[int, ...]], _Seen] = {}
        self._times: dict[tuple[CodeType, int], int] = {}

    def begin(self) -> None:
        """Note that lanes start at the kernel's first line."""
        self._times.clear()

    def known(self, undefined: Array, draws: Array) -> Array:
        """Return a mask of the undefined elements that a compiler may know, for any inputs.

        They are undefined in all draws and programs that run together. The others come from an instruction with a
        specified result: quantisation relies on it for rows with a NaN. A draw that runs alone is compared with earlier
        ones. With a single draw, blocks are assumed to depend on the inputs.

        Args:
            undefined: Mask of undefined elements, (draws or 1, programs or 1, *block).
            draws: Indices of the draws that run.
        """
        if len(draws) == 1 and undefined.ndim > 2:
            return undefined & self._always(np.asarray(undefined.all(axis=(0, 1))), int(draws[0]))
        if len(undefined) == 1:
            return undefined
        return undefined & undefined.all(axis=(0, 1), keepdims=True)

    def _always(self, undefined: Array, draw: int) -> Array:
        """Return a mask of elements that were undefined in every draw here, if there were several."""
        here = _place()
        self._times[here] = self._times.get(here, 0) + 1
        seen = self._seen.setdefault(((*here, self._times[here]), undefined.shape), _Seen(undefined))
        seen.undefined = seen.undefined & undefined
        seen.draws.add(draw)
        return seen.undefined & (len(seen.draws) > 1)

    def settle(self, data: Array, undefined: Array, draws: Array) -> Array:
        """Return a card's values, with undefined ones replaced in open draws.

        Args:
            data: The values, (draws or 1, programs or 1, *block).
            undefined: Mask of undefined values.
            draws: Indices of the draws that run.
        """
        if not undefined.any():
            return data
        bits = self._bits[draws]
        drawn = (bits / np.float64(1 << 62) - 2 if data.dtype.kind == "f" else bits).astype(data.dtype)
        return np.where(undefined & _column(self._is_open[draws], data), _column(drawn, data), data)

    def shuffle(self, data: Array, draws: Array) -> Array:
        """Shuffle the elements of blocks, in the same order for all blocks of one size."""
        if data[0, 0].size < 2 or not self._is_open[draws].any():
            return data
        rows = np.broadcast_to(data, (len(draws), *data.shape[1:])).reshape(len(draws), data.shape[1], -1)
        shuffled = [
            row[:, np.random.default_rng(self._bits[draw]).permutation(row.shape[1])] if self._is_open[draw] else row
            for draw, row in zip(draws, rows, strict=True)
        ]
        return np.stack(shuffled).reshape(-1, *data.shape[1:])

    def settle_nan(self, data: Array, draws: Array) -> Array:
        """Replace the bits of NaN by those of each draw, before any code reads the bits of floats."""
        if data.dtype.kind != "f" or not (missing := np.isnan(data)).any():
            return data
        size = data.itemsize
        drawn = self._bits[draws] & np.uint64(_PAYLOAD[size]) | np.uint64(_QUIET_NAN[size])
        bits = np.where(self._is_open[draws], drawn, np.uint64(_CARDS_NAN[size]))
        return np.where(missing, _column(bits.astype(f"u{size}").view(data.dtype), data), data)


def _column(of_draws: Array, like: Array) -> Array:
    return of_draws.reshape((-1,) + (1,) * (like.ndim - 1))


def is_beyond(data: Array, dtype: TritonType) -> Array:
    """Return a mask of floats whose integral part is out of a type's range."""
    bounds = np.iinfo(format_of(dtype).held)
    whole = np.trunc(data.astype(np.float64))
    return np.asarray((whole < float(bounds.min)) | (whole >= float(bounds.max) + 1) | np.isnan(data))


def _place() -> tuple[CodeType, int]:
    """Return the candidate's instruction that is being executed."""
    frame: FrameType = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename != FILENAME:
        frame = frame.f_back
    return frame.f_code, frame.f_lasti


def _shifts_out(left: Array, right: Array) -> Array:
    """Return a mask of shifts by at least the width; a negative number counts as a large one."""
    bits = 1 if left.dtype == np.bool_ else 8 * left.itemsize
    return np.asarray((right < 0) | (right >= bits))


def _is_zero(left: Array, right: Array) -> Array:
    return np.asarray(right == 0)


def _is_zero_or_too_large(left: Array, right: Array) -> Array:
    """Return a mask of undefined quotients: by zero, or the lowest signed number by -1."""
    if left.dtype.kind != "i":
        return _is_zero(left, right)
    return np.asarray((right == 0) | ((right == -1) & (left == np.iinfo(left.dtype).min)))


UNDEFINED: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("shl", "lshr", "ashr"), _shifts_out),
    **dict.fromkeys(("sdiv", "srem"), _is_zero_or_too_large),
    **dict.fromkeys(("udiv", "urem"), _is_zero),
}
"""Masks of undefined results of instructions with two integers, by name."""
