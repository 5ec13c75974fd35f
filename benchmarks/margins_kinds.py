"""Right answers of more kinds than the gate's: other orders of sums, other formulas, and what a card's units do.

Each is a step of `benchmarks.margins.computed` over a reference that is written out.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from workers.protocol import Node

LANES = 32
"""Partial sums of a row that are kept side by side."""
POWER_ERROR, RECIPROCAL_ERROR, ROOT_ERROR = 2**-22.5, 2.0**-23, 2**-22.9
"""Largest relative errors of a card's approximate power of two, reciprocal and reciprocal root, set by hand: results of
softmax and layer norm depend on the choice."""
SPREADING = 40503
"""Odd factor that spreads the bits of a float: the error of a unit depends on its argument alone."""

Step = Callable[[Node, list[Any], dict[str, Any]], Any]
"""A node's result in another way, from its arguments; None for the usual one."""


def _total(order: Callable[[torch.Tensor], torch.Tensor]) -> Step:
    """Return a step that adds float32 values up in an order: `order` takes (terms, sums) to (sums,)."""

    def step(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        name, values = node.name, args[0] if args else None
        if name not in ("sum", "mean") or values.dtype != torch.float32 or not values.isfinite().all():
            return None
        dims = args[1] if len(args) > 1 and args[1] else list(range(values.dim()))
        axes = [axis % values.dim() for axis in dims]
        keeps = bool(args[2]) if len(args) > 2 else False
        kept = [size for axis, size in enumerate(values.shape) if axis not in axes]
        total = order(values.movedim(axes, list(range(len(axes)))).reshape(-1, math.prod(kept)))
        if name == "mean":
            total = total / (values.numel() // max(1, total.numel()))
        shape = [1 if axis in axes else size for axis, size in enumerate(values.shape)] if keeps else kept
        return total.reshape(shape)

    return step


def one_by_one(terms: torch.Tensor) -> torch.Tensor:
    """Add terms in order, each partial sum rounded."""
    return torch.from_numpy(np.add.accumulate(terms.numpy(), axis=0, dtype=np.float32)[-1].copy())


def in_pairs(terms: torch.Tensor) -> torch.Tensor:
    """Add neighbours, then their sums."""
    while len(terms) > 1:
        even = terms[: len(terms) // 2 * 2]
        terms = torch.cat([even[0::2] + even[1::2], terms[len(even) :]])
    return terms[0]


def in_lanes(terms: torch.Tensor) -> torch.Tensor:
    """Add terms to a lane each, one after another, and the lanes as a tree."""
    lanes = [one_by_one(terms[lane::LANES]) for lane in range(min(LANES, len(terms)))]
    return in_pairs(torch.stack(lanes))


def compensated(terms: torch.Tensor) -> torch.Tensor:
    """Add terms with Kahan's compensation."""
    total, lost = torch.zeros_like(terms[0]), torch.zeros_like(terms[0])
    for term in terms:
        term = term - lost
        found = total + term
        lost = (found - total) - term
        total = found
    return total


def _is_single(value: object) -> bool:
    return isinstance(value, torch.Tensor) and value.dtype == torch.float32


def in_powers_of_two(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Compute exponentials and logarithms to the base 2."""
    if node.name == "exp" and _is_single(args[0]):
        return torch.exp2(args[0] * (1 / math.log(2)))
    if node.name == "log" and _is_single(args[0]):
        return torch.log2(args[0]) * math.log(2)
    return None


def by_reciprocals(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Multiply by the reciprocal instead of dividing."""
    if node.name == "div" and len(args) == 2 and not kwargs and all(map(_is_single, args)):
        return args[0] * (1 / args[1])
    return None


def _approximate(exact: torch.Tensor, argument: torch.Tensor, error: float) -> torch.Tensor:
    """Return values off by up to a relative error, the same for equal arguments; at whole arguments they are exact."""
    bits = argument.contiguous().view(torch.int32).long()
    share = ((bits * SPREADING) % 1024).double() / 512 - 1
    near = exact * torch.where(argument == argument.round(), 0.0, share).mul(error).add(1)
    return torch.where(exact.isfinite(), near, exact).float()


def by_units(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Compute exponentials, quotients and reciprocal roots as approximate units do."""
    name = node.name
    if not args or not _is_single(args[0]):
        return None
    if name in ("exp", "exp2"):
        power = args[0] * (1 / math.log(2)) if name == "exp" else args[0]
        return _approximate(torch.exp2(power.double()), power, POWER_ERROR)
    if name == "div" and len(args) == 2 and _is_single(args[1]) and not kwargs:
        return args[0] * _approximate(1 / args[1].double(), args[1], RECIPROCAL_ERROR)
    return _approximate(torch.rsqrt(args[0].double()), args[0], ROOT_ERROR) if name == "rsqrt" else None


def by_exponentials(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Compute hyperbolic tangents and logistic functions from exponentials."""
    if node.name == "tanh" and _is_single(args[0]):
        return 2 / (1 + torch.exp(-2 * args[0])) - 1
    if node.name == "sigmoid" and _is_single(args[0]):
        return 1 / (1 + torch.exp(-args[0]))
    return None


def by_roots(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Divide by a root instead of multiplying with a reciprocal root."""
    return 1 / torch.sqrt(args[0]) if node.name == "rsqrt" and _is_single(args[0]) else None


def flushed(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Flush what is smaller than a normal number to zero, in factors and in sums."""
    if node.name not in ("mul", "add", "sub", "div", "exp", "rsqrt") or not all(map(_is_single, args)):
        return None
    tiny = torch.finfo(torch.float32).tiny
    given = [torch.where(value.abs() < tiny, 0.0, value) for value in args]
    found: torch.Tensor = getattr(torch, node.name)(*given, **kwargs)
    return torch.where(found.abs() < tiny, 0.0, found)


def fused() -> Step:
    """Return a step that rounds products once with the sum they go into, as fused multiply-adds do."""
    products: dict[int, tuple[torch.Tensor, torch.Tensor, torch.Tensor]] = {}

    def step(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
        name = node.name
        if name == "mul" and len(args) == 2 and all(map(_is_single, args)):
            found = args[0] * args[1]
            products[id(found)] = (found, *args)
            return found
        if name not in ("add", "sub") or len(args) != 2 or kwargs or not all(map(_is_single, args)):
            return None
        sign = 1 if name == "add" else -1
        for number, factor in ((0, 1), (1, sign)):
            if id(args[number]) in products:
                _, left, right = products[id(args[number])]
                other = args[1 - number].double() * (sign if number == 0 else 1)
                return (factor * left.double() * right.double() + other).float()
        return None

    return step


def by_welford(node: Node, args: list[Any], kwargs: dict[str, Any]) -> Any:
    """Compute a row's mean and variance in one pass, of lanes that are merged."""
    if node.name != "native_layer_norm" or args[0].dtype != torch.float32 or len(args[1]) != 1:
        return None
    values, weight, bias, epsilon = args[0], args[2], args[3], args[4]
    count, mean, squares = 0, torch.zeros_like(values[..., :1]), torch.zeros_like(values[..., :1])
    for part in values.split(LANES, -1):
        size, its = part.shape[-1], part.mean(-1, keepdim=True)
        apart = its - mean
        squares = (
            squares + (part - its).square().sum(-1, keepdim=True) + apart * apart * (count * size / (count + size))
        )
        mean = mean + apart * (size / (count + size))
        count += size
    inverse = torch.rsqrt(squares / count + epsilon)
    found = (values - mean) * inverse
    found = found if weight is None else found * weight
    return (found if bias is None else found + bias), mean, inverse


KINDS: dict[str, Callable[[], Step]] = {
    "sums one after another": lambda: _total(one_by_one),
    "sums in a tree": lambda: _total(in_pairs),
    "sums in lanes": lambda: _total(in_lanes),
    "sums with compensation": lambda: _total(compensated),
    "powers of two": lambda: in_powers_of_two,
    "reciprocals": lambda: by_reciprocals,
    "approximate units": lambda: by_units,
    "functions by exponentials": lambda: by_exponentials,
    "roots": lambda: by_roots,
    "tiny values flushed": lambda: flushed,
    "fused multiply-adds": fused,
}
"""Steps over the reference as it is written out, by name; each is made anew for an answer."""
WHOLE: dict[str, Step] = {"Welford": by_welford}
"""Steps over the reference itself."""
