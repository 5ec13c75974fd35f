"""From how a problem makes a tensor's values to how ours are drawn.

A problem draws its inputs one way, mostly from [0, 1), where a ReLU changes nothing and a long product is zero. What
`forward` is given is therefore drawn as widely as any operator's inputs, unless the problem's values keep within other
bounds, which then are part of what it promises. Parameters are drawn as their initialisation draws them, so that
activations keep their scale; weights that begin as ones and zeros vary around these, or nobody would notice
that they are left out.
"""

from typing import Any

import torch

from workers.kernelbench.origins import ValueOrigin

AROUND = 0.5
"""How far values go either way from a constant that a parameter begins with."""
DEVIATIONS = 2.0
"""Standard deviations either way that uniform values go, for normal ones of another spread than 1."""
STANDARD = (ValueOrigin("uniform", 0.0, 1.0), ValueOrigin("normal", 0.0, 1.0))
"""What `rand` and `randn` make."""


class Undrawable(Exception):
    """Nothing tells what values a tensor may have; the message says of which."""


def drawn(name: str, dtype: torch.dtype, origin: ValueOrigin, *, parameter: bool, published: bool) -> dict[str, Any]:
    """The fields of an input that say how its values are drawn.

    Args:
        name: What the input is called.
        dtype: Of its elements.
        origin: How the problem makes them.
        parameter: Whether it belongs to the module.
        published: Whether to draw as the problem does, rather than as widely as may be.

    Raises:
        Undrawable: If it holds integers of unknown range.
    """
    if dtype == torch.bool:
        return {}
    if not dtype.is_floating_point:
        if not origin.bounded:
            raise Undrawable(f"'{name}' holds integers, and how it is made does not tell their range")
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
