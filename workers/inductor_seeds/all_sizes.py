"""Validity of a traced reference at all sizes of its operator: a trace takes the branches of one shape."""

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice, product
from math import prod
from typing import Any, TypeAlias

import torch

from workers.inductor_seeds.extremes import values_of
from workers.inputs import draw
from workers.protocol import Operator, Outcome, Shape
from workers.tracer.refusal import TraceRefused

POINTS = 8
"""Number of random sizes at which equalities must hold."""
CORNERS = 4096
"""Maximum number of sizes at which an inequality is looked at."""
ELEMENTS = 2**22
"""Maximum number of elements of the inputs on which a graph is compared with its reference."""
SPREAD = 0.05
"""Difference of equal formulas, of the largest value, that rounding in any dtype stays below."""

FAILURES = (ArithmeticError, AssertionError, LookupError, RuntimeError, TypeError, ValueError)
"""Errors of references at sizes at which they were not traced."""

Call: TypeAlias = Callable[..., object]
Guard: TypeAlias = Any
"""A relation between symbols, of sympy."""


def require_all_sizes(
    operator: Operator, dims: Mapping[str, Any], guards: Sequence[Guard], reference: Call, traced: Call
) -> None:
    """Refuse a graph that is valid for some sizes only.

    That is one in which a size is a number, in which sizes are equal that often differ, as those of padded rows, or
    which has other results than the reference where an inequality between sizes does not hold. Torch decides by such
    inequalities too, between formulas with the same results, as in `torch.cdist`. Sizes of 0 and 1 are left out, which
    torch always tells from others.

    Args:
        operator: The operator.
        dims: Its sizes as they were traced, by name: symbols, or numbers.
        guards: What the trace assumed about symbols.
        reference: The operator's function of tensors.
        traced: Its graph.

    Raises:
        TraceRefused: If it is not valid at all sizes.
    """
    for name in operator.dimensions:
        if isinstance(dims[name], torch.SymInt) and dims[name].node.expr.is_number:
            reason = (
                f"its reference uses the size '{name}' as a Python number: a seed would be valid for one value only"
            )
            raise TraceRefused(Outcome.FORBIDDEN_OP, reason)
    symbols = {name: size.node.expr for name, size in dims.items() if isinstance(size, torch.SymInt)}
    for guard in guards:
        points = _points(operator, symbols) if guard.is_Equality else _corners(operator, symbols, guard)
        broken = (point for point in points if _is_false(guard, symbols, point) and min(point.values()) > 1)
        found = next(broken, None)
        if found is not None and (guard.is_Equality or not agree(operator, found, reference, traced)):
            decisive = next((name for name, symbol in symbols.items() if symbol in guard.free_symbols), "")
            reason = f"its reference decides by the size '{decisive}': a seed would be valid for some values only"
            raise TraceRefused(Outcome.FORBIDDEN_OP, reason)


def _is_false(guard: Guard, symbols: Mapping[str, Any], point: Mapping[str, int]) -> bool:
    return str(guard.xreplace({symbols[name]: size for name, size in point.items()})) == "False"


def _range(operator: Operator, name: str) -> tuple[int, int]:
    low, high = min(values_of(operator, name)), max(values_of(operator, name))
    return min(max(2, low), high), high


def _points(operator: Operator, symbols: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    rng = random.Random(0)
    for _ in range(POINTS):
        yield {name: rng.randint(*_range(operator, name)) for name in symbols}


def _corners(operator: Operator, symbols: Mapping[str, Any], guard: Guard) -> list[dict[str, int]]:
    """Return sizes beside which an inequality may turn, the smallest inputs first: ends, and numbers in it."""
    numbers = {int(each) for each in guard.atoms() if each.is_Integer}
    values = []
    for name, symbol in symbols.items():
        low, high = _range(operator, name)
        near = {low, high, *values_of(operator, name), *(number + step for number in numbers for step in (-1, 0, 1))}
        values.append(sorted(size for size in near if low <= size <= high) if symbol in guard.free_symbols else [low])
    found = [dict(zip(symbols, point, strict=True)) for point in islice(product(*values), CORNERS)]
    return sorted(found, key=lambda point: prod(point.values()))


def agree(operator: Operator, sizes: Mapping[str, int], reference: Call, traced: Call) -> bool:
    """Return True if a graph has the reference's results at some sizes, or if that cannot be told on the CPU."""
    dims = {**operator.shapes[0].dims, **sizes}
    if sum(prod(operator.input_shape(item, dims)) for item in operator.inputs) > ELEMENTS:
        return True
    given = draw(operator, Shape(dims=dims), "normal", 0)
    with torch.no_grad():
        try:
            expected = _tensors(reference(*(tensor.clone() for tensor in given)))
        except FAILURES:
            return True
        try:
            found = _tensors(traced(*(tensor.clone() for tensor in given)))
        except NotImplementedError:  # Operations of ours have no kernel for a CPU.
            return True
        except RuntimeError:
            return False
    return len(found) == len(expected) and all(map(_is_close, found, expected))


def _tensors(results: object) -> list[torch.Tensor]:
    return [item for item in (results if isinstance(results, tuple | list) else [results]) if torch.is_tensor(item)]


def _is_close(found: torch.Tensor, expected: torch.Tensor) -> bool:
    if (found.shape, found.dtype) != (expected.shape, expected.dtype):
        return False
    mine, its = (torch.view_as_real(each) if each.is_complex() else each for each in (found, expected))
    mine, its = mine.double(), its.double()
    largest = its.nan_to_num(0.0, 0.0, 0.0).abs().max() if its.numel() else 0.0
    return torch.allclose(mine, its, rtol=0.0, atol=SPREAD * float(largest), equal_nan=True)
