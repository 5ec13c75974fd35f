"""Values of a problem's tensors: their origins, observed while it makes them without data, and our draws from these.

Runs inside the sandbox. Results of `rand` are in [0, 1), those of `uniform_` within its bounds, and simple arithmetic
changes such bounds. After any other operation, nothing is known.

A problem mostly draws its inputs from [0, 1), where a ReLU changes nothing and a long product is zero. Arguments of
`forward` are therefore drawn as widely as any operator's inputs, unless the problem has other bounds, which are then
part of its contract. Parameters are drawn as by their initialisation, so that activations keep their scale. Weights
that begin as ones and zeros vary around these, because a kernel could omit them unnoticed otherwise.
"""

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from math import exp
from typing import Any, Literal

import torch
from torch._ops import OpOverload

from workers.tracer.constants import storage_of
from workers.tracer.modes import DispatchMode

LARGEST = 80.0
"""Largest absolute value whose functions are followed: the exponential of a larger one is no float32."""
LEAST_SHARE = 2.0**-20
"""Lower bound assumed for softmax and sigmoid: they are above 0, and often the argument of a logarithm."""


@dataclass(frozen=True)
class ValueOrigin:
    """Origin of a tensor's values.

    `low` and `high` are bounds of uniform, whole and constant values, and mean and standard deviation of normal ones.
    The upper bound of whole numbers is inclusive.
    """

    kind: Literal["uniform", "whole", "constant", "normal", "unknown"] = "unknown"
    low: float = 0.0
    high: float = 0.0

    @property
    def bounded(self) -> bool:
        """True if `low` and `high` are bounds."""
        return self.kind in ("uniform", "whole", "constant")

    def scaled(self, factor: float, added: float = 0.0) -> "ValueOrigin":
        """Return the origin of the same values times a factor, plus a number."""
        if self.kind == "normal":
            return ValueOrigin("normal", self.low * factor + added, self.high * abs(factor))
        low, high = sorted((self.low * factor + added, self.high * factor + added))
        return ValueOrigin(self.kind, low, high)


UNKNOWN = ValueOrigin()


class ValueOrigins(DispatchMode):
    """Mode that observes how tensors are made; `of` returns the origin of one."""

    def __init__(self) -> None:
        super().__init__()
        self._known: dict[int, ValueOrigin] = {}
        self._kept: list[torch.Tensor] = []  # so that no storage address is reused

    def of(self, tensor: torch.Tensor) -> ValueOrigin:
        """Return the origin of a tensor's values."""
        return self._known.get(storage_of(tensor), UNKNOWN)

    def _origin(self, value: object) -> ValueOrigin:
        """Return the origin of an argument: of a tensor, a number, or all tensors of a list."""
        if isinstance(value, torch.Tensor):
            return self.of(value)
        if not isinstance(value, tuple | list) or not value:
            return _number(value)
        parts = [self.of(each) if isinstance(each, torch.Tensor) else UNKNOWN for each in value]
        if not all(part.bounded for part in parts):
            return UNKNOWN
        return ValueOrigin("uniform", min(part.low for part in parts), max(part.high for part in parts))

    def __torch_dispatch__(
        self,
        operation: OpOverload,
        types: object,
        args: tuple[object, ...] = (),
        kwargs: dict[str, object] | None = None,
    ) -> object:
        before = [self._origin(value) for value in args]
        result = operation(*args, **(kwargs or {}))
        name = operation._schema.name.partition("::")[2]
        if isinstance(result, torch.Tensor) and not name.startswith(("detach", "empty")):
            shared = any(isinstance(value, torch.Tensor) and storage_of(value) == storage_of(result) for value in args)
            if not shared or name.endswith("_"):
                self._kept.append(result)
                followed = "alpha" not in (kwargs or {})
                self._known[storage_of(result)] = _made(name.removesuffix("_"), args, before) if followed else UNKNOWN
        return result


def _number(value: object) -> ValueOrigin:
    return ValueOrigin("constant", float(value), float(value)) if isinstance(value, (int, float)) else UNKNOWN


def _made(name: str, args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    """Return the origin of an operation's result, from its arguments and their origins before the call."""
    rule = _RULES.get(name)
    return UNKNOWN if rule is None else rule(args, before)


def _first(args: tuple[object, ...], low: float, high: float) -> tuple[float, float]:
    """Return the two numbers after the first argument, or their defaults."""
    given = [float(value) if isinstance(value, (int, float)) else None for value in (*args[1:3], None, None)][:2]
    return low if given[0] is None else given[0], high if given[1] is None else given[1]


def _randint(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    bounds = [float(value) for value in args if isinstance(value, int)]
    low, high = bounds if len(bounds) == 2 else [0.0, *bounds]
    return ValueOrigin("whole", low, high - 1)


def _linear(
    args: tuple[object, ...], before: list[ValueOrigin], combine: Callable[[float, float], float]
) -> ValueOrigin:
    left, right = before[:2]
    if left.kind == "normal" and right.kind == "constant":
        offset = combine(0.0, right.low)
        return left.scaled(combine(1.0, right.low) - offset, offset)
    if not (left.bounded and right.bounded):
        return UNKNOWN
    corners = [combine(one, other) for one, other in product((left.low, left.high), (right.low, right.high))]
    kind = left.kind if right.kind == "constant" else "uniform" if left.kind != "constant" else right.kind
    return ValueOrigin(kind, min(corners), max(corners))


def _divided(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    if before[1].kind != "constant" or before[1].low == 0.0:
        return UNKNOWN
    return before[0].scaled(1.0 / before[1].low) if before[0].kind != "unknown" else UNKNOWN


def _cut(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    """Return the origin of a triangle of a matrix; the rest are zeros."""
    kind = before[0]
    return ValueOrigin("uniform", min(kind.low, 0.0), max(kind.high, 0.0)) if kind.bounded else kind


_Rule = Callable[[tuple[object, ...], list[ValueOrigin]], ValueOrigin]


def _mapped(function: Callable[[float], float]) -> _Rule:
    """Return the rule of a function that is monotone over the bounds, or is smallest at 0."""

    def rule(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
        kind = before[0]
        if not kind.bounded or max(abs(kind.low), abs(kind.high)) > LARGEST:
            return UNKNOWN
        ends = [function(kind.low), function(kind.high), *([function(0.0)] if kind.low < 0 < kind.high else [])]
        return ValueOrigin("constant" if kind.kind == "constant" else "uniform", min(ends), max(ends))

    return rule


def _powered(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    power = args[1]
    if not isinstance(power, int) or power < 1:
        return UNKNOWN
    return _mapped(lambda value: value**power)(args, before)


def _clamped(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    low, high = (_number(value) for value in (*args[1:3], None, None)[:2])
    if before[0].bounded:
        ends = [max(low.low, end) if low.bounded else end for end in (before[0].low, before[0].high)]
        ends = [min(high.low, end) if high.bounded else end for end in ends]
        return ValueOrigin(before[0].kind, *ends)
    return ValueOrigin("uniform", low.low, high.low) if low.bounded and high.bounded else UNKNOWN


def _counted(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    numbers = [each.low for each in before if each.kind == "constant"]
    first, end, step = (
        (0.0, *numbers, 1.0) if len(numbers) == 1 else (*numbers, 1.0)[:3] if numbers else (0.0, 0.0, 1.0)
    )
    return ValueOrigin("whole", first, end - step) if end > first and step > 0 else UNKNOWN


def _spread(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    ends = sorted(each.low for each in before[:2] if each.kind == "constant")
    return ValueOrigin("uniform", *ends) if len(ends) == 2 else UNKNOWN


def _filled(args: tuple[object, ...], before: list[ValueOrigin]) -> ValueOrigin:
    return before[1] if len(before) > 1 else UNKNOWN


_RULES: dict[str, _Rule] = {
    "rand": lambda args, before: ValueOrigin("uniform", 0.0, 1.0),
    "rand_like": lambda args, before: ValueOrigin("uniform", 0.0, 1.0),
    "uniform": lambda args, before: ValueOrigin("uniform", *_first(args, 0.0, 1.0)),
    "randn": lambda args, before: ValueOrigin("normal", 0.0, 1.0),
    "randn_like": lambda args, before: ValueOrigin("normal", 0.0, 1.0),
    "normal": lambda args, before: ValueOrigin("normal", *_first(args, 0.0, 1.0)),
    "randint": _randint,
    "ones": lambda args, before: ValueOrigin("constant", 1.0, 1.0),
    "ones_like": lambda args, before: ValueOrigin("constant", 1.0, 1.0),
    "zeros": lambda args, before: ValueOrigin("constant", 0.0, 0.0),
    "zeros_like": lambda args, before: ValueOrigin("constant", 0.0, 0.0),
    "zero": lambda args, before: ValueOrigin("constant", 0.0, 0.0),
    "full": _filled,
    "full_like": _filled,
    "fill": _filled,
    "copy": _filled,
    "_softmax": lambda args, before: ValueOrigin("uniform", LEAST_SHARE, 1.0),
    "sigmoid": lambda args, before: ValueOrigin("uniform", LEAST_SHARE, 1.0),
    "randperm": lambda args, before: ValueOrigin("whole", 0.0, before[0].high - 1),
    "arange": _counted,
    "linspace": _spread,
    "neg": lambda args, before: before[0].scaled(-1.0),
    "abs": _mapped(abs),
    "relu": _mapped(lambda value: max(value, 0.0)),
    "pow": _powered,
    "exp": _mapped(exp),
    "clamp": _clamped,
    "clamp_min": _clamped,
    "cat": lambda args, before: before[0],
    "stack": lambda args, before: before[0],
    "mul": lambda args, before: _linear(args, before, lambda one, other: one * other),
    "add": lambda args, before: _linear(args, before, lambda one, other: one + other),
    "sub": lambda args, before: _linear(args, before, lambda one, other: one - other),
    "rsub": lambda args, before: _linear(args, before, lambda one, other: other - one),
    "div": _divided,
    **dict.fromkeys(("_to_copy", "clone", "contiguous", "repeat", "flip"), lambda args, before: before[0]),
    "triu": _cut,
    "tril": _cut,
}


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
            raise Undrawable(f"'{name}' holds integers of unknown range: make it by torch.randint(low, high, ...)")
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
