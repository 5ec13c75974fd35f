"""Benchmark shapes from real calls: a JSON file with sizes per call, whose frequencies become weights."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from service.errors import InvalidInput
from workers.protocol import BenchmarkShape, Input, Operator, Shape
from workers.protocol.extent import names_in, size_of, solved

MOST_SHAPES = 8
"""Maximum number of benchmark shapes from calls: each is compiled and timed for every candidate."""
WEIGHTS = ("weight", "count")
"""Keys of a call that say how often it happens; once without."""
FORMS = (
    'write a list of calls, each with sizes by dimension, as in {"M": 4096, "N": 1024, "count": 12}, or with the '
    'shapes of the inputs, as in {"shapes": [[4096, 1024], [1024]], "count": 12}'
)
"""Remedy for a file in another form."""


def shapes_of_calls(operator: Operator, text: str) -> tuple[tuple[BenchmarkShape, ...], float]:
    """Read the sizes of real calls.

    Args:
        operator: The operator that is called.
        text: JSON: a list of calls, an object with the list under `calls`, or one call per line. Equal calls add up.

    Returns:
        The most frequent sizes as benchmark shapes, weights adding up to 1; and the share of all calls that they are.

    Raises:
        InvalidInput: If the text has another form, or sizes that do not fit the operator.
    """
    document = _parsed(text)
    calls = document.get("calls", [document] if document else None) if isinstance(document, dict) else document
    if not isinstance(calls, list) or not calls:
        raise InvalidInput(f"no list of calls; {FORMS}", "shapes")
    found: dict[str, Mapping[str, int]] = {}
    weights: dict[str, float] = {}
    for index, call in enumerate(calls):
        dims, weight = _sizes(operator, call, f"call {index}"), _weight(call, f"call {index}")
        key = Shape(dims=dims).key
        found[key] = dims
        weights[key] = weights.get(key, 0.0) + weight
    kept = sorted(weights.items(), key=lambda item: -item[1])[:MOST_SHAPES]
    total = sum(weight for _, weight in kept)
    shapes = tuple(BenchmarkShape(dims=dict(found[key]), weight=weight / total) for key, weight in kept)
    return shapes, total / sum(weights.values())


def _parsed(text: str) -> object:
    """Parse JSON, or JSON lines."""
    try:
        document: object = json.loads(text)
        return document
    except (ValueError, RecursionError) as error:
        try:
            return [json.loads(line) for line in text.splitlines() if line.strip()] or json.loads(text)
        except (ValueError, RecursionError):
            raise InvalidInput(f"not valid JSON: {error}", "shapes") from None


def with_calls(operator: Operator, shapes: Sequence[BenchmarkShape]) -> Operator:
    """Return an operator that is timed at these shapes; its ranges reach as far as they do."""
    ranges = {
        name: (min(low, *(shape.dims[name] for shape in shapes)), max(high, *(shape.dims[name] for shape in shapes)))
        for name, (low, high) in operator.ranges.items()
    }
    timed = [shape.model_dump() for shape in shapes]
    return Operator.model_validate({**operator.model_dump(), "shapes": timed, "ranges": ranges})


def with_start(operator: Operator, source: str) -> Operator:
    """Return an operator whose first seed is a kernel, and whose gains are told over that kernel."""
    seeds = (source, *(seed for seed in operator.seeds if seed != source))
    return Operator.model_validate({**operator.model_dump(), "seeds": seeds, "baselines": ("seed",)})


def _weight(call: Mapping[str, Any], where: str) -> float:
    given = next((call[key] for key in WEIGHTS if key in call and not isinstance(call[key], list)), 1)
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given < float("inf"):
        raise InvalidInput(f"{where}: {given!r} is no number of calls above 0", "shapes")
    return float(given)


def _sizes(operator: Operator, call: object, where: str) -> dict[str, int]:
    """Return the size of each dimension in a call."""
    if isinstance(call, list):
        call = {"shapes": call}
    if not isinstance(call, dict):
        raise InvalidInput(f"{where} is no object; {FORMS}", "shapes")
    named = {item.name for item in operator.inputs if isinstance(call.get(item.name), list)}
    if named and "shapes" not in call:
        others = {name: value for name, value in call.items() if name not in named}
        call = {**others, "shapes": {name: call[name] for name in named}}
    dims = {name: size for name, size in call.items() if name not in (*WEIGHTS, "shapes")}
    if "shapes" in call:
        dims |= _dims_of(operator, call["shapes"], where)
    fixed = {name: operator.shapes[0].dims[name] for name in operator.dimensions if name not in dims}
    known = ", ".join(operator.dimensions)
    unknown = [name for name in dims if name not in operator.dimensions]
    lacking = [name for name in fixed if name in operator.ranges]
    if unknown or lacking:
        fault = f"has a size for '{unknown[0]}'" if unknown else f"gives no size for '{lacking[0]}'"
        raise InvalidInput(f"{where} {fault}; the dimensions are {known}", "shapes")
    wrong = [name for name, size in dims.items() if type(size) is not int or size < int(name not in operator.presences)]
    if wrong:
        raise InvalidInput(f"{where}: the size of {wrong[0]} is no whole number above 0", "shapes")
    return {**fixed, **dims}


def _dims_of(operator: Operator, shapes: object, where: str) -> dict[str, int]:
    """Return the dimensions that shapes of the inputs have: a list in their order, or by name."""
    if isinstance(shapes, dict):
        shapes = [shapes.get(item.name) for item in operator.inputs]
    if not isinstance(shapes, list) or len(shapes) > len(operator.inputs):
        raise InvalidInput(f"{where}: 'shapes' is a list of {len(operator.inputs)} shapes, or one by input", "shapes")
    dims: dict[str, int] = {}
    dims |= {
        item.name: int(shape is not None) for item, shape in zip(operator.inputs, shapes, strict=False) if item.optional
    }
    given = [pair for pair in zip(operator.inputs, shapes, strict=False) if pair[1] is not None]
    # Axes of one dimension come first: a product or sum is known by its other parts.
    for item, shape in given:
        _bind(item, shape, dims, where)
    for item, shape in given:
        _compare(item, shape, dims, where)
    return dims


def _bind(item: Input, shape: object, dims: dict[str, int], where: str) -> None:
    if not isinstance(shape, list) or len(shape) != len(item.shape) or any(type(size) is not int for size in shape):
        raise _unlike(item, shape, where)
    for extent, size in zip(item.shape, shape, strict=True):
        if names_in(extent) == [extent]:
            dims.setdefault(str(extent), size)


def _compare(item: Input, shape: list[int], dims: dict[str, int], where: str) -> None:
    """Compare a shape with known dimensions. A dimension that only a product or sum has follows from its size."""
    for extent, size in zip(item.shape, shape, strict=True):
        found = solved(extent, size, dims)
        dims |= dict([found] if found else [])
        if not dims.keys() >= {*names_in(extent)} or size_of(extent, dims) != size:
            raise _unlike(item, shape, where, dims)


def _unlike(item: Input, shape: object, where: str, dims: Mapping[str, int] | None = None) -> InvalidInput:
    expected = ", ".join(map(str, item.shape))
    known = [f"{name} = {dims[name]}" for extent in item.shape for name in names_in(extent) if dims and name in dims]
    said = f" with {', '.join(dict.fromkeys(known))}" if known else ""
    return InvalidInput(f"{where}: the shape {shape} of '{item.name}' is not [{expected}]{said}", "shapes")
