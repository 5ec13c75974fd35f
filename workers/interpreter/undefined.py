"""Undefined values: where Triton leaves it open what comes out, or one machine has something else than another.

In every other draw it is what a card computes at run time, in the others anything. The compiler, who works such values
out beforehand or takes for granted that they do not occur, may have left out what follows from them; so nobody can rest
on one value of them.
"""

from collections.abc import Callable

import numpy as np

from workers.interpreter.faults import Array
from workers.interpreter.formats import TritonType, format_of

_CARDS_NAN = {4: 0x7FFFFFFF, 8: 0x7FFFFFFFFFFFFFFF}
# The only NaN that a card's arithmetic gives (PTX ISA, `add`), by the bytes of a float.
_QUIET_NAN = {4: 0x7FC00000, 8: 0x7FF8000000000000}
_PAYLOAD = {4: 0x803FFFFF, 8: 0x8007FFFFFFFFFFFF}
# Bits in which a NaN may differ from a quiet one.


class Chance:
    """Draws undefined values, each the same throughout a draw of the inputs.

    Args:
        order: What decides.
        draws: Copies of the inputs.
    """

    def __init__(self, order: np.random.Generator, draws: int) -> None:
        self._is_open = (np.arange(draws) + order.integers(2)) % 2 == 1
        self._bits = order.integers(0, 1 << 64, draws, dtype=np.uint64)

    def settle(self, data: Array, undefined: Array, draws: Array) -> Array:
        """Integers as a card has them, with others in place of those that are undefined.

        Args:
            data: The integers, (draws or 1, programs or 1, *block).
            undefined: Which of them are.
            draws: Indices of the draws that run.
        """
        if not undefined.any():
            return data
        drawn = self._bits[draws].astype(data.dtype)
        return np.where(undefined & _column(self._is_open[draws], data), _column(drawn, data), data)

    def settle_nan(self, data: Array, draws: Array) -> Array:
        """Floats whose bits are looked at, by anybody: NaN has those of this draw."""
        if data.dtype.kind != "f" or not (missing := np.isnan(data)).any():
            return data
        size = data.itemsize
        drawn = self._bits[draws] & np.uint64(_PAYLOAD[size]) | np.uint64(_QUIET_NAN[size])
        bits = np.where(self._is_open[draws], drawn, np.uint64(_CARDS_NAN[size]))
        return np.where(missing, _column(bits.astype(f"u{size}").view(data.dtype), data), data)


def _column(of_draws: Array, like: Array) -> Array:
    return of_draws.reshape((-1,) + (1,) * (like.ndim - 1))


def is_beyond(data: Array, dtype: TritonType) -> Array:
    """Which floats no integer of a type is the whole part of."""
    bounds = np.iinfo(format_of(dtype).held)
    whole = np.trunc(data.astype(np.float64))
    beyond: Array = (whole < float(bounds.min)) | (whole >= float(bounds.max) + 1) | np.isnan(data)
    return beyond


def may_be_known(data: Array, draws: Array) -> bool:
    """Whether a compiler may know values: they do not depend on the inputs.

    What does is cast by an instruction that says what comes out, and quantisation rests on that where a row has a NaN.
    Where a single draw runs the two look alike, and of blocks it is taken that they depend on them.
    """
    return len(data) == 1 and (len(draws) > 1 or data.ndim == 2)


def _shifts_out(left: Array, right: Array) -> Array:
    """Shifts by as many bits as there are, or more; a negative number is a large one."""
    result: Array = (right < 0) | (right >= 8 * left.itemsize)
    return result


def _is_zero(left: Array, right: Array) -> Array:
    result: Array = right == 0
    return result


UNDEFINED: dict[str, Callable[[Array, Array], Array]] = {
    **dict.fromkeys(("shl", "lshr", "ashr"), _shifts_out),
    **dict.fromkeys(("sdiv", "udiv", "srem", "urem"), _is_zero),
}
"""Where an instruction of two integers is undefined, by its name."""
