"""Draws of a tensor's values, derived from their origin in the problem.

A problem mostly draws its inputs from [0, 1), where a ReLU changes nothing and a long product is zero. Arguments of
`forward` are therefore drawn as widely as any operator's inputs, unless the problem has other bounds, which are then
part of its contract. Parameters are drawn as by their initialisation, so that activations keep their scale. Weights
that begin as ones and zeros vary around these, because a kernel could omit them unnoticed otherwise.
"""

from typing import Any

import torch

from workers.kernelbench.origins import ValueOrigin

AROUND = 0.5
"""Maximum distance of values from the constant that a parameter begins with."""
DEVIATIONS = 2.0
"""Standard deviations, either way, of the uniform values that replace normal ones of a spread other than 1."""
STANDARD = (ValueOrigin("uniform", 0.0, 1.0), ValueOrigin("normal", 0.0, 1.0))
"""Origins of `rand` and `randn`."""


class Undrawable(Exception):
    """The range of a tensor's values is unknown; the message names the tensor."""


def drawn(name: str, dtype: torch.dtype, origin: ValueOrigin, *, parameter: bool, published: bool) -> dict[str, Any]:
    """Return the fields of an input that define the draw of its values.

    Args:
        name: Name of the input.
        dtype: Its dtype.
        origin: Origin of its values in the problem.
        parameter: True if it belongs to the module.
        published: True to draw as the problem does, rather than as widely as possible.

    Raises:
        Undrawable: If its values are integers of unknown range.
    """
    if dtype == torch.bool:
        return {}
    if not dtype.is_floating_point:
        if not origin.bounded:
            raise Undrawable(f"'{name}' holds integers of unknown range, because the way it is made is not supported")
        return {"low": origin.low, "high": origin.high + 1.0}
    if origin.kind == "unknown" or (origin in STANDARD and not (parameter or published)):
        return {"distribution": "normal"} if parameter or published else {}
    low, high = _bounds(origin)
    return (
        {"distribution": "normal"} if origin in STANDARD[1:] else {"distribution": "uniform", "low": low, "high": high}
    )


def _bounds(origin: ValueOrigin) -> tuple[float, float]:
    if origin.kind == "normal":
        reach = DEVIATIONS * origin.high
        return origin.low - reach, origin.low + reach
    if origin.low == origin.high:
        return origin.low - AROUND, origin.high + AROUND
    return origin.low, origin.high
