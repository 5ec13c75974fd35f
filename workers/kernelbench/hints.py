"""Example arguments from type hints: `x: "bfloat16[M, 4096]"`, the same in `Annotated`, or hints of jaxtyping.

Runs inside the sandbox.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, get_args, get_origin

import torch

from workers.kernelbench.extents import Place, SizeNumber
from workers.protocol.extent import names_in, size_of

DEFAULT_SIZE = 1024
"""Size of a dimension whose hint has a name alone."""
STEP = 128
"""Difference of the sizes of two such dimensions."""
HINT = re.compile(r"\s*(?P<dtype>\w+)\s*\[(?P<sizes>[^\]]*)\]\s*")
"""Pattern of a hint: dtype and sizes."""
SHORT = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
"""Short names of dtypes, besides torch's own."""
_MANY = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
FLOATS = {name: getattr(torch, name) for name in ("float16", "bfloat16", "float32", "float64")}
"""Dtypes whose values need no bounds; integers do, which a hint does not give."""


@dataclass(frozen=True)
class HintedExample:
    """Example arguments from the hints of a function.

    Attributes:
        arguments: The arguments without those that have a default.
        dimensions: Dimensions that the hints name.
        notes: Notes on sizes that were assumed.
    """

    arguments: list[object]
    dimensions: tuple[SizeNumber, ...]
    notes: tuple[str, ...]


def hinted(signature: inspect.Signature, namespace: Mapping[str, object]) -> HintedExample | None:
    """Make example arguments from the hints of a function; None if a parameter has no hint.

    Args:
        signature: Signature of the function.
        namespace: Names of its file, whose numbers are sizes.
    """
    made: list[object] = []
    places: dict[str, list[Place]] = {}
    assumed: dict[str, int] = {}
    for parameter in signature.parameters.values():
        if parameter.default is not parameter.empty or parameter.kind in _MANY:
            continue
        found = HINT.fullmatch(_text_of(parameter.annotation))
        dtype = SHORT.get(found["dtype"], found["dtype"]) if found else ""
        if found is None or dtype not in FLOATS:
            return None
        sizes = re.sub(r"\s*([*+])\s*(?=\w)", r"\1", found["sizes"]) if "," in found["sizes"] else found["sizes"]
        extents = [text for text in re.split(r"[,\s]+", sizes.strip()) if text]
        for axis, text in enumerate(extents):
            if not text.isdecimal() and not _is_formula(text):
                places.setdefault(text.partition("=")[0], []).append((len(made), axis))
        made.append(torch.randn([_size(text, namespace, assumed) for text in extents], dtype=FLOATS[dtype]))
    if not made:
        return None
    notes = (f"The hint of dimension '{name}' has no size; {size} was taken." for name, size in assumed.items())
    return HintedExample(made, tuple(SizeNumber(name, tuple(each)) for name, each in places.items()), tuple(notes))


def _text_of(annotation: object) -> str:
    """Return a hint as `dtype[sizes]`; empty if it is none."""
    if isinstance(annotation, str):
        return annotation.strip("'\" ")
    if get_origin(annotation) is Annotated:
        return next((text for text in get_args(annotation)[1:] if isinstance(text, str)), "")
    dtypes, sizes = getattr(annotation, "dtypes", None), getattr(annotation, "dim_str", None)
    return f"{dtypes[0]}[{sizes}]" if isinstance(dtypes, list | tuple) and len(dtypes) == 1 and sizes else ""


def _is_formula(text: str) -> bool:
    """Return True for a product or sum of names and numbers, such as `3*D`; its size is that of the names."""
    return re.fullmatch(r"\w+(?:[*+]\w+)+", text, re.ASCII) is not None


def _size(text: str, namespace: Mapping[str, object], assumed: dict[str, int]) -> int:
    """Return the size that a hint gives: a number, or a name with its number in the hint or in the file."""
    if _is_formula(text):
        return size_of(text, {name: _size(name, namespace, assumed) for name in names_in(text)})
    name, _, number = text.partition("=")
    if (number or name).isdecimal():
        return int(number or name)
    known = namespace.get(name)
    if type(known) is int and known > 0:
        return known
    # Different sizes keep dimensions apart that have no number.
    return assumed.setdefault(name, DEFAULT_SIZE + STEP * len(assumed))
